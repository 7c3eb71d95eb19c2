#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/store.h"
#include "service/overrides.h"
#include "service/served_limits.h"
#include "waiting/limit_binding.h"

namespace sluice {

/// A limit, its space in the store, where its decisions are counted, and how it treats its keys.
/// Immutable, thread-safe.
struct RegisteredLimit : BoundLimit {
  /// Where its decisions are counted: from 1 for named limits; 0 for an expression.
  std::uint16_t number = 0;
  /// See NamedLimit.
  bool dry_run = false;
  std::string key = {};
  /// Null where there are none.
  std::unique_ptr<const Overrides> overrides = nullptr;

  /// The override that holds for the key, or null.
  const KeyRule* rule_of(std::string_view key_asked) const {
    return overrides == nullptr ? nullptr : overrides->find(key_asked);
  }
  /// What holds for the key.
  const BoundLimit& bound_for(std::string_view key_asked) const {
    const KeyRule* rule = rule_of(key_asked);
    if (rule != nullptr) return *rule;
    return *this;
  }
};

/// The one share of a space, of which those that use it hold shares: so the space's use count tells
/// the store that they are one caller (Store::replace_space()).
using HeldSpace = std::shared_ptr<const std::shared_ptr<Space>>;

/// The number under which a limit's decisions are counted, by its name: the same as long as the
/// server runs.
class CountNumbers {
 public:
  /// How many numbers there are, and 0. Limits that find none left have 0, as expressions do.
  static constexpr std::size_t kMost = 1'024;

  std::uint16_t of(const std::string& name) {
    if (numbers_.size() + 1 >= kMost && !numbers_.contains(name)) return 0;
    return numbers_.try_emplace(name, static_cast<std::uint16_t>(numbers_.size() + 1))
        .first->second;
  }

 private:
  std::map<std::string, std::uint16_t> numbers_;
};

/// The limits that requests may name. Immutable: all threads share it.
class NamedLimits {
 public:
  using Shared = std::shared_ptr<const RegisteredLimit>;

  /// Opens the spaces; those of `former`, which these limits replace, go on as far as their states
  /// can be read. Throws InvalidLimit where two limits have one name, or an override's limit
  /// lends permits and the limit does not or the other way round; StoreError where the store cannot
  /// open a space. ("cl", the space of CL.THROTTLE, cannot be a limit's name.)
  NamedLimits(Store& store, const ServedLimits& served, CountNumbers& numbers,
              const NamedLimits* former = nullptr);

  /// The limit of this name, or null.
  const Shared* find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &at->second;
  }
  /// In their order.
  std::span<const Shared> all() const { return all_; }
  /// See ServedLimits.
  bool expressions() const { return expressions_; }

 private:
  std::map<std::string, HeldSpace> spaces_;  // By the names under which they were opened.
  std::unordered_map<std::string, Shared, TextHash, std::equal_to<>> by_name_;
  std::vector<Shared> all_;
  bool expressions_ = true;
};

}  // namespace sluice

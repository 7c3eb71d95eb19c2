#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/store.h"
#include "core/text_hash.h"
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

  /// The override that applies to the key, or null.
  const KeyRule* rule_of(std::string_view key_asked) const {
    return overrides == nullptr ? nullptr : overrides->find(key_asked);
  }
  /// The limit that applies to the key.
  const BoundLimit& bound_for(std::string_view key_asked) const {
    const KeyRule* rule = rule_of(key_asked);
    if (rule != nullptr) return *rule;
    return *this;
  }
};

/// What a server keeps when it replaces its set of named limits by another. Not thread-safe.
class LimitHistory {
 public:
  /// The numbers from 0 on. If none is left, a limit has 0, as expressions have.
  static constexpr std::size_t kMostNumbers = 1'024;

  /// The number under which the decisions of the limit of this name are counted: the same as long
  /// as the server runs.
  std::uint16_t number_of(const std::string& name);

  /// Opens the space of this limit. If a former set had a space of this name, it is continued if
  /// its states can be read; a thread that has been idle since may still hold it. Throws
  /// StoreError.
  std::shared_ptr<Space> open_space(Store& store, const LimitDefinition& limit);

 private:
  std::map<std::string, std::uint16_t> numbers_;
  std::map<std::string, std::weak_ptr<Space>> spaces_;
  std::size_t purge_at_ = 1'024;  // So many spaces, of which some may be no longer held.
};

/// The limits that requests may name. Immutable: all threads share it.
class NamedLimits {
 public:
  using Shared = std::shared_ptr<const RegisteredLimit>;

  /// Opens the spaces. Throws StoreError where the store cannot open one. REQUIRES: no two limits
  /// have one name; an override's limit lends permits if and only if the limit does. ("cl", the
  /// space of CL.THROTTLE, cannot be a limit's name.)
  NamedLimits(Store& store, const ServedLimits& served, LimitHistory& history);

  /// The limit of this name, or null.
  const Shared* find(std::string_view name) const {
    const auto at = by_name_.find(name);
    return at == by_name_.end() ? nullptr : &at->second;
  }
  /// In their order.
  std::span<const Shared> all() const { return all_; }
  /// Under which their decisions are counted, and those of all others (0).
  std::set<std::size_t> numbers() const {
    std::set<std::size_t> numbers{0};
    for (const Shared& limit : all_) numbers.insert(limit->number);
    return numbers;
  }
  /// See ServedLimits.
  bool expressions() const { return expressions_; }

 private:
  std::unordered_map<std::string, Shared, TextHash, std::equal_to<>> by_name_;
  std::vector<Shared> all_;
  bool expressions_ = true;
};

}  // namespace sluice

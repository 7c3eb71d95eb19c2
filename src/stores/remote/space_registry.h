#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice {

/// The open spaces of one remote store, by name, so that a name means one limit at a time. S is the
/// store's Space: it is constructed from a prefix and a limit, and has the limit's parts().
///
/// Thread-safe.
template <class S>
class SpaceRegistry {
 public:
  /// The most spaces that may be in use at the same time.
  static constexpr std::size_t kMaxSpaces = 16'384;

  struct Names {
    /// "redis store": what sentences begin with.
    std::string store;
    /// What the spaces are made with.
    std::string prefix;
  };
  explicit SpaceRegistry(Names names) : names_(std::move(names)) {}

  /// The limit's space: the one in use under its name, or a new one. Throws StoreError if the space
  /// in use belongs to a limit whose states this limit cannot read, or if kMaxSpaces others are in
  /// use. See Store::replace_space().
  std::shared_ptr<Space> open(const LimitDefinition& limit,
                              const std::shared_ptr<Space>& held = nullptr) {
    const std::lock_guard lock(mutex_);
    const auto found = spaces_.find(limit.space);
    const auto known = found == spaces_.end() ? nullptr : found->second.lock();
    if (known == nullptr) return Space::hold(add(limit), held);
    if (keeps_state(known->parts(), limit.parts)) return Space::hold(known, held);
    if (known->has_others(held)) {
      throw StoreError(names_.store + ": the keys of '" + limit.space + "' are those of '" +
                       describe_parts(known->parts()) + "', which '" + limit.expression +
                       "' cannot take over while others use them");
    }
    const auto fresh = add(limit);
    fresh->succeed(*known);
    return Space::hold(fresh, held);
  }

 private:
  std::shared_ptr<S> add(const LimitDefinition& limit) {
    if (spaces_.size() >= kMaxSpaces) {
      std::erase_if(spaces_, [](const auto& entry) { return entry.second.expired(); });
      if (spaces_.size() >= kMaxSpaces) {
        throw StoreError(names_.store + ": " + std::to_string(kMaxSpaces) +
                         " limits are in use, the most it can keep apart");
      }
    }
    auto space = std::make_shared<S>(names_.prefix, limit);
    spaces_[limit.space] = space;
    return space;
  }

  const Names names_;
  std::mutex mutex_;
  std::unordered_map<std::string, std::weak_ptr<S>> spaces_;  // guarded by mutex_
};

}  // namespace sluice

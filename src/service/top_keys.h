#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/text_hash.h"

namespace sluice {

/// How often a key was seen, for display.
struct KeyCount {
  /// Its first bytes, at most TopKeys::kMaxKeyBytes.
  std::string key;
  /// How often it was seen, or up to `error` more than that.
  std::uint64_t count = 0;
  std::uint64_t error = 0;

  friend bool operator==(const KeyCount&, const KeyCount&) = default;
};

/// The keys that are seen most, by a bounded number of counters: Space-Saving (A. Metwally, D.
/// Agrawal, A. El Abbadi, "Efficient Computation of Frequent and Top-k Elements in Data Streams",
/// ICDT 2005). A new key takes the counter that counts least, and its count as the error. Of n
/// counters, a key with more than an n-th of all occurrences is certain to have one. Keys that are
/// equal in their first kMaxKeyBytes are one. Not thread-safe.
class TopKeys {
 public:
  static constexpr std::size_t kMostCounters = 1'000;
  static constexpr std::size_t kMaxKeyBytes = 256;

  /// REQUIRES: 1 <= counters.
  explicit TopKeys(std::size_t counters = kMostCounters) : most_(counters) {}

  /// So many counters from now on: those that count least are dropped if there are more. REQUIRES:
  /// 1 <= counters <= those that it has had.
  void set_counters(std::size_t counters) {
    most_ = counters;
    while (counters_.size() > most_) drop_least();
  }
  std::size_t counters() const { return most_; }

  void add(std::string_view key) {
    key = key.substr(0, kMaxKeyBytes);
    auto at = counters_.find(key);
    if (at == counters_.end()) {
      Counter counter;
      if (counters_.size() == most_) counter.count = counter.error = drop_least();
      at = counters_.emplace(std::string(key), counter).first;
    } else {
      by_count_.erase({at->second.count, at->first});
    }
    ++at->second.count;
    by_count_.insert({at->second.count, at->first});
  }

  /// Adds the counts of two summaries, as one summary of what either has seen (P. K. Agarwal et
  /// al., "Mergeable Summaries", PODS 2012): a key without a counter in a full summary may have
  /// been seen there as often as the least counter says.
  using Merged = std::map<std::string, KeyCount, std::less<>>;
  void merge_into(Merged& merged, std::uint64_t& least_of_all) const {
    const std::uint64_t least = counters_.size() < most_ ? 0 : by_count_.begin()->first;
    for (auto& [key, row] : merged) {
      if (counters_.find(key) != counters_.end()) continue;
      row.count += least;
      row.error += least;
    }
    for (const auto& [key, counter] : counters_) {
      const auto [at, is_new] = merged.try_emplace(key, KeyCount{key, least_of_all, least_of_all});
      at->second.count += counter.count;
      at->second.error += counter.error;
    }
    least_of_all += least;
  }

 private:
  struct Counter {
    std::uint64_t count = 0;
    std::uint64_t error = 0;
  };

  // Returns what it counted.
  std::uint64_t drop_least() {
    const auto [count, key] = *by_count_.begin();
    by_count_.erase(by_count_.begin());
    counters_.erase(counters_.find(key));
    return count;
  }

  std::size_t most_;
  std::unordered_map<std::string, Counter, TextHash, std::equal_to<>> counters_;
  std::set<std::pair<std::uint64_t, std::string_view>> by_count_;  // Views of counters_' keys.
};

/// The keys that one thread has denied most, of each limit. One thread adds; any thread may call
/// the other functions meanwhile.
class DeniedKeys {
 public:
  /// The most counters of all limits together. One takes 0.4 KiB if its key is long.
  static constexpr std::size_t kMostCounters = 8'192;

  /// Forgets all limits but these, each of which has an equal share of the counters from now on; or
  /// those that it has, if they are fewer.
  void keep(const std::set<std::size_t>& limits) {
    const std::lock_guard lock(mutex_);
    std::erase_if(limits_, [&](const auto& row) { return !limits.contains(row.first); });
    each_ =
        std::min(kMostCounters / std::max<std::size_t>(1, limits.size()), TopKeys::kMostCounters);
    for (auto& [limit, keys] : limits_) keys.set_counters(std::min(each_, keys.counters()));
  }

  void add(std::size_t limit, std::string_view key) {
    const std::lock_guard lock(mutex_);
    limits_.try_emplace(limit, each_).first->second.add(key);
  }

  void merge_into(std::size_t limit, TopKeys::Merged& merged, std::uint64_t& least) const {
    const std::lock_guard lock(mutex_);
    if (const auto at = limits_.find(limit); at != limits_.end()) {
      at->second.merge_into(merged, least);
    }
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::size_t, TopKeys> limits_;
  std::size_t each_ = TopKeys::kMostCounters;  // The counters of a limit.
};

}  // namespace sluice

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
/// ICDT 2005). A new key takes the counter that counts least, and its count as the error. A key
/// with more than one kCounters-th of all occurrences is certain to have a counter. Keys that are
/// equal in their first kMaxKeyBytes are one. Not thread-safe.
class TopKeys {
 public:
  static constexpr std::size_t kCounters = 1'000;
  static constexpr std::size_t kMaxKeyBytes = 256;

  void add(std::string_view key) {
    key = key.substr(0, kMaxKeyBytes);
    auto at = counters_.find(key);
    if (at == counters_.end()) {
      Counter counter;
      if (counters_.size() == kCounters) {
        const auto least = by_count_.begin();
        counter.count = counter.error = least->first;
        const auto replaced = counters_.find(least->second);
        by_count_.erase(least);
        counters_.erase(replaced);
      }
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
    const std::uint64_t least = counters_.size() < kCounters ? 0 : by_count_.begin()->first;
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

  std::unordered_map<std::string, Counter, TextHash, std::equal_to<>> counters_;
  std::set<std::pair<std::uint64_t, std::string_view>> by_count_;  // Views of counters_' keys.
};

/// The keys that one thread has denied most, of each limit. One thread adds; any thread may read
/// meanwhile.
class DeniedKeys {
 public:
  void add(std::size_t limit, std::string_view key) {
    const std::lock_guard lock(mutex_);
    limits_[limit].add(key);
  }

  void merge_into(std::size_t limit, TopKeys::Merged& merged, std::uint64_t& least) const {
    const std::lock_guard lock(mutex_);
    if (const auto at = limits_.find(limit); at != limits_.end()) {
      at->second.merge_into(merged, least);
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::size_t, TopKeys> limits_;  // guarded by mutex_
};

}  // namespace sluice

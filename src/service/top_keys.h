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
  /// 1 <= counters.
  void set_counters(std::size_t counters) {
    most_ = counters;
    while (counters_.size() > most_) drop_least();
  }

  /// Where there is no memory for the key, the process ends: it would be counted by half.
  void add(std::string_view key) noexcept {
    key = key.substr(0, kMaxKeyBytes);
    auto at = counters_.find(key);
    if (at == counters_.end()) {
      if (counters_.size() == most_) drop_least();
      at = counters_.emplace(std::string(key), Counter{dropped_, dropped_}).first;
    } else {
      by_count_.erase({at->second.count, at->first});
    }
    ++at->second.count;
    by_count_.insert({at->second.count, at->first});
  }

  /// Adds the counts of two summaries, as one summary of what either has seen (P. K. Agarwal et
  /// al., "Mergeable Summaries", PODS 2012): a key without a counter in a summary may have been
  /// seen there as often as the last counter that it dropped says.
  using Merged = std::map<std::string, KeyCount, std::less<>>;
  void merge_into(Merged& merged, std::uint64_t& dropped_of_all) const {
    for (auto& [key, row] : merged) {
      if (counters_.find(key) != counters_.end()) continue;
      row.count += dropped_;
      row.error += dropped_;
    }
    for (const auto& [key, counter] : counters_) {
      const auto [at, is_new] =
          merged.try_emplace(key, KeyCount{key, dropped_of_all, dropped_of_all});
      at->second.count += counter.count;
      at->second.error += counter.error;
    }
    dropped_of_all += dropped_;
  }

 private:
  struct Counter {
    std::uint64_t count = 0;
    std::uint64_t error = 0;
  };

  void drop_least() {
    const auto [count, key] = *by_count_.begin();
    by_count_.erase(by_count_.begin());
    counters_.erase(counters_.find(key));
    dropped_ = count;
  }

  std::size_t most_;
  // What the counter that was dropped last said: no counter says less, and none that was dropped
  // said more. So a key without a counter was seen this often at most.
  std::uint64_t dropped_ = 0;
  std::unordered_map<std::string, Counter, TextHash, std::equal_to<>> counters_;
  std::set<std::pair<std::uint64_t, std::string_view>> by_count_;  // Views of counters_' keys.
};

/// The keys that one thread has denied most, of each limit. One thread adds; any thread may call
/// the other functions meanwhile.
class DeniedKeys {
 public:
  /// The most counters of all limits together. One takes 0.4 KiB if its key is long.
  static constexpr std::size_t kMostCounters = 8'192;

  /// Forgets all limits but these, each of which has an equal share of the counters from now on.
  void keep(const std::set<std::size_t>& limits) {
    const std::lock_guard lock(mutex_);
    std::erase_if(limits_, [&](const auto& row) { return !limits.contains(row.first); });
    each_ =
        std::min(kMostCounters / std::max<std::size_t>(1, limits.size()), TopKeys::kMostCounters);
    for (auto& [limit, keys] : limits_) keys.set_counters(each_);
  }

  void add(std::size_t limit, std::string_view key) {
    const std::lock_guard lock(mutex_);
    limits_.try_emplace(limit, each_).first->second.add(key);
  }

  void merge_into(std::size_t limit, TopKeys::Merged& merged, std::uint64_t& dropped) const {
    const std::lock_guard lock(mutex_);
    if (const auto at = limits_.find(limit); at != limits_.end()) {
      at->second.merge_into(merged, dropped);
    }
  }

 private:
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::map<std::size_t, TopKeys> limits_;
  std::size_t each_ = TopKeys::kMostCounters;  // The counters of a limit.
};

}  // namespace sluice

#pragma once

#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"

namespace sluice::replay {

/// Hashes the keys of a log, for maps.
struct LoggedKeyHash {
  using is_avalanching = void;
  std::size_t operator()(std::string_view key) const;
};

/// A key and the counts of its requests.
struct KeyCount {
  std::string key;
  std::uint64_t denied = 0;
  std::uint64_t requests = 0;
  /// Its number in the tally.
  std::uint32_t id = 0;
};

/// The UTC minute with the most denials.
struct WorstMinute {
  /// The start of the minute.
  Instant start_ns = 0;
  std::uint64_t denied = 0;
};

struct LimitSummary {
  /// As the user wrote it.
  std::string expression;
  std::uint64_t denied = 0;
  /// Keys with at least one denied request.
  std::uint64_t keys_limited = 0;
  /// The earliest, if several have as many; nothing if no request was denied.
  std::optional<WorstMinute> worst_minute = {};
  /// The most denied first, equal ones ordered by their bytes.
  std::vector<KeyCount> most_denied = {};
};

struct Summary {
  std::uint64_t keys_seen = 0;
  /// In the order in which the limits were given.
  std::vector<LimitSummary> limits;
};

inline constexpr std::size_t kMostDenied = 10;

/// How many keys had which share of their requests denied: none; up to 10 %, up to 20 %, ... up to
/// 100 %, but not all; all.
using ShareHistogram = std::array<std::uint64_t, 12>;

/// Counts requests and denials by key and by minute. Its memory grows with the keys: their bytes,
/// some 40 bytes, and 8 bytes for each limit; and for each limit with the minutes in which it
/// denies a request: up to 40 bytes. Not thread-safe.
class Tally {
 public:
  /// Numbers the keys from 0.
  using KeyId = std::uint32_t;

  explicit Tally(std::vector<std::string> expressions);

  /// Counts a request. Throws std::length_error at 2^32 - 1 keys.
  KeyId count(std::string_view key);

  /// Counts that the limit with this index denied this request.
  void count_denied(std::size_t limit, KeyId key, Instant time_ns);

  /// At most `most` keys of each limit are in the list of the most denied.
  Summary summary(std::size_t most = kMostDenied) const;

  /// What limit number `by` denies to the keys to which limit number `not_by` denies nothing;
  /// without the worst minute.
  LimitSummary only_denied(std::size_t by, std::size_t not_by) const;

  ShareHistogram shares(std::size_t limit) const;

  const std::vector<std::string>& expressions() const { return expressions_; }

  /// The requests of a key so far, and those of them that a limit denied.
  std::uint64_t requests(KeyId key) const { return cell(key, 0); }
  std::uint64_t denied(std::size_t limit, KeyId key) const { return cell(key, limit + 1); }

 private:
  std::uint64_t& cell(KeyId key, std::size_t column) {
    return counts_[std::size_t{key} * (expressions_.size() + 1) + column];
  }
  std::uint64_t cell(KeyId key, std::size_t column) const {
    return counts_[std::size_t{key} * (expressions_.size() + 1) + column];
  }
  /// A summary without the worst minute, and without the keys that `not_by` denies something.
  LimitSummary denied_keys(std::size_t limit, std::size_t most,
                           std::optional<std::size_t> not_by = {}) const;
  std::optional<WorstMinute> worst_minute(std::size_t limit) const;

  std::vector<std::string> expressions_;
  /// The text of every key; not freed before the end.
  std::pmr::monotonic_buffer_resource key_bytes_;
  boost::unordered_flat_map<std::string_view, KeyId, LoggedKeyHash> ids_;
  /// A row for each key: its requests, then its denials by each limit.
  std::vector<std::uint64_t> counts_;
  /// By limit: the denied requests of each minute.
  std::vector<boost::unordered_flat_map<std::int64_t, std::uint64_t>> minutes_;
};

}  // namespace sluice::replay

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "advise/suggest.h"
#include "advise/traffic.h"
#include "replay/log.h"

namespace sluice::advise {

/// The shares that may be denied, in thousandths: 5 %, 1 % and 0.1 %.
inline constexpr std::array<std::uint64_t, 3> kDeniedShares = {50, 10, 1};

/// The limits of one family.
struct FamilyAdvice {
  /// The expression, with L instead of the limit.
  std::string expression;
  /// By kDeniedShares: the smallest limit at which at most this share of the keys would be denied
  /// anything, or kMaxCount. Exact for the kept keys.
  std::array<std::int64_t, 3> keys = {};
  /// By kDeniedShares: the smallest limit of limit_series() that would deny at most this share of
  /// the requests; a queue is one less than a number of the series. Exact for the kept keys.
  std::array<std::int64_t, 3> requests = {};
};

/// What keys ask for in windows of one length, whenever these begin: the peaks of a share of the
/// keys are at most this. A peak above kLargestLog is counted in windows that may be up to a tenth
/// longer.
struct Burstiness {
  std::int64_t window_ns = 0;
  std::int64_t half = 0;
  std::int64_t nine_tenths = 0;
  std::int64_t all_but_hundredth = 0;
  std::int64_t most = 0;
};

/// A key that the balanced limit hits first.
struct HitKey {
  std::string key;
  std::uint64_t requests = 0;
  /// By the balanced limit.
  std::uint64_t denied = 0;
  /// The smallest limit of the balanced limit's family that denies this key nothing.
  std::int64_t needs = 0;
  /// The most units within a minute, measured as those of Burstiness.
  std::int64_t busiest_minute = 0;
  /// From its first request to its last.
  std::int64_t span_ns = 0;
  std::uint64_t client_errors = 0;
  std::uint64_t server_errors = 0;
  /// The most frequent ones, with a lower bound of their requests; empty if there is none.
  std::string user_agent;
  std::uint64_t user_agent_requests = 0;
  std::string path;
  std::uint64_t path_requests = 0;
};

struct Advice {
  replay::LogSummary log;
  /// An estimate if is_sample.
  std::uint64_t keys = 0;
  std::uint64_t keys_kept = 0;
  bool is_sample = false;
  bool is_in_seconds = false;
  bool has_status = false;
  /// Those of buckets, and of the windows that are no longer than the data.
  std::vector<FamilyAdvice> families;
  std::vector<Burstiness> burstiness;
  /// At most kMostHit, the most needy first.
  std::vector<HitKey> hit_first;
  /// strict, balanced and lenient; none if there was no request with a cost, or if more than a
  /// hundredth of the requests came too late: late requests look like bursts.
  std::vector<Suggestion> suggestions;
  /// The number of the balanced limit's family.
  std::size_t balanced_family = 0;
  /// What the data cannot tell, in full sentences; none if it has no requests.
  std::vector<std::string> unknowns;
};

inline constexpr std::size_t kMostHit = 10;

/// Concludes from the traffic of logs.
Advice make_advice(const Traffic& traffic, const replay::LogSummary& log);

}  // namespace sluice::advise

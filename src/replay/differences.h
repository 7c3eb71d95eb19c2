#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "replay/tally.h"

namespace sluice::replay {

/// How many keys had which share of their requests denied: none; up to 10 %, up to 20 %, ... up to
/// 100 %, but not all; all.
using ShareHistogram = std::array<std::uint64_t, 12>;

ShareHistogram share_histogram(const Tally& tally, std::size_t limit);

/// A key whose requests one limit denies and the other one does not.
struct KeyDifference {
  std::string key;
  std::uint64_t requests = 0;
  /// How many of its requests the denying limit denies.
  std::uint64_t denied = 0;
};

/// The keys that one limit denies at least once and another limit never.
struct Difference {
  std::uint64_t keys = 0;
  /// At most kMostDifferent, the most denied first, equal ones ordered by their bytes.
  std::vector<KeyDifference> most_denied = {};
};

inline constexpr std::size_t kMostDifferent = 10;

/// The keys that limit number `by` denies and limit number `not_by` does not.
Difference only_denied(const Tally& tally, std::size_t by, std::size_t not_by);

}  // namespace sluice::replay

#pragma once

#include <boost/unordered/unordered_flat_map.hpp>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/instant.h"
#include "replay/tally.h"
#include "replay/timeline.h"
#include "sluice/decision.h"

namespace sluice::replay {

/// What the HTML report draws besides the counts of the tally: requests and denials over time, of
/// all keys and of those that are denied most, and how the limits' decisions differ.
///
/// Its memory is bounded: kMaxKeySteps steps of keys. When there are more, it forgets the timelines
/// of the keys that were denied least so far, and keeps at least those of the most denied of each
/// limit. A forgotten key begins a new timeline, whose requests are then fewer than the tally's.
///
/// Not thread-safe.
class Charts {
 public:
  static constexpr std::size_t kMaxKeySteps = std::size_t{1} << 19;

  /// REQUIRES: 1 <= limits <= kMaxCharted.
  explicit Charts(std::size_t limits, std::size_t max_key_steps = kMaxKeySteps);

  /// Adds a request that `tally` has counted, with the decisions of all limits.
  void add(const Tally& tally, Tally::KeyId key, Instant time_ns,
           std::span<const Decision* const> decisions);

  const TimeSteps& steps() const { return steps_; }

  /// The timeline of all keys together; the levels mean nothing.
  const Timeline& all() const { return all_; }

  /// The timeline of a key, or null if it has none.
  const Timeline* of(Tally::KeyId key) const;

  /// How many requests the limit `a` admits and the limit `b` denies.
  std::uint64_t only_denied_by(std::size_t b, std::size_t a) const {
    return differences_[a * limits_ + b];
  }

 private:
  void widen(std::int64_t factor);
  void forget_some(const Tally& tally);
  std::vector<std::pair<std::size_t, Tally::KeyId>> by_denials(const Tally& tally) const;

  std::size_t limits_;
  std::size_t max_key_steps_;
  TimeSteps steps_;
  Timeline all_;
  boost::unordered_flat_map<Tally::KeyId, Timeline> keys_;
  /// The number of steps in keys_.
  std::size_t key_steps_ = 0;
  std::vector<std::uint64_t> differences_;
};

}  // namespace sluice::replay

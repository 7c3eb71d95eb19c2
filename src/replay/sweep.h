#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"
#include "core/store.h"
#include "replay/tally.h"
#include "sluice/limit.h"

namespace sluice::replay {

/// The canonical expression with all its numbers of units (the count, burst and queue of each part)
/// scaled to so many per cent, rounded down, at least 1.
std::string scaled_expression(std::string_view expression, int percent);

/// A limit and how many keys it would deny at least once.
struct SweepPoint {
  int percent = 100;
  std::string expression;
  std::uint64_t keys_limited = 0;
};

/// Decides the requests by smaller and larger versions of each limit too, to find for each version
/// how many keys it would deny at least once. Once a version has denied a key, the rest of the
/// key's requests are not decided by it, so that this takes less time than whole replays.
///
/// Keeps a byte for each key and limit, and its states in a memory store of its own with at most
/// kMaxStoreBytes. If these do not suffice, it stops, and has no result.
///
/// Not thread-safe.
class Sweep {
 public:
  static constexpr std::array kPercents = {25, 50, 75, 150, 200, 400};
  static constexpr std::size_t kMaxStoreBytes = std::size_t{512} << 20;

  explicit Sweep(const std::vector<Limit>& limits, std::size_t max_store_bytes = kMaxStoreBytes);

  /// Decides requests, which all come at `now`; keys[i] is the number of the key of requests[i].
  /// REQUIRES: at most 64 requests.
  void decide(std::span<Request> requests, std::span<const Tally::KeyId> keys, Instant now);

  /// The results for the versions of the limit with this index, which are not the limit itself,
  /// from the smallest to the largest; nothing if the states did not fit into the store.
  std::optional<std::vector<SweepPoint>> points(std::size_t limit) const;

 private:
  struct Version {
    Limit limit;
    std::shared_ptr<Space> space;
    int percent = 100;
    std::size_t origin = 0;
    std::uint8_t bit = 0;
    std::uint64_t keys_limited = 0;
  };

  void decide(Version& version, std::span<Request> requests, std::span<const Tally::KeyId> keys,
              Instant now);

  std::shared_ptr<Store> store_;
  std::vector<Version> versions_;
  std::size_t limits_;
  bool is_stopped_ = false;
  /// A row for each key, a byte for each limit, a bit for each version that has denied the key.
  std::vector<std::uint8_t> denied_;
};

}  // namespace sluice::replay

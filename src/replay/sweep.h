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
/// scaled to so many per cent, rounded down, at least 1; 0 stays 0.
std::string scaled_expression(std::string_view expression, int percent);

/// A limit and how many keys it would deny at least once.
struct SweepPoint {
  int percent = 100;
  std::string expression;
  std::uint64_t keys_limited = 0;
};

/// The versions of a limit.
struct SweepResult {
  /// How many keys were followed: all, or from a sample keys_limited are estimated.
  std::uint64_t keys = 0;
  bool is_sample = false;
  /// From the smallest version to the largest, without the limit itself.
  std::vector<SweepPoint> points;
};

/// Decides the requests by smaller and larger versions of each limit too, to find for each version
/// how many keys it would deny at least once. Once a version has denied a key, the rest of the
/// key's requests are not decided by it, so that this takes less time than whole replays.
///
/// It follows the first kFirstKeys keys, among which are most of the busy ones, and of those that
/// come later a sample if there are many: those whose numbers have a hash that is a multiple of a
/// power of two, which is doubled when there are more than kMaxLaterKeys of them. Each is followed
/// from its first request on. The states are in a memory store of its own; if they need more than
/// kMaxStoreBytes, the sweep stops, and has no result. Besides it keeps a byte for each key and
/// limit.
///
/// Not thread-safe.
class Sweep {
 public:
  static constexpr std::array kPercents = {25, 50, 75, 150, 200, 400};
  static constexpr std::uint64_t kFirstKeys = 8192;
  static constexpr std::uint64_t kMaxLaterKeys = 8192;
  static constexpr std::size_t kMaxStoreBytes = std::size_t{256} << 20;

  explicit Sweep(const std::vector<Limit>& limits, std::size_t max_store_bytes = kMaxStoreBytes);

  /// Decides requests, which all come at `now`; keys[i] is the number of the key of requests[i].
  /// REQUIRES: at least one request.
  void decide(std::span<const Request> requests, std::span<const Tally::KeyId> keys, Instant now);

  /// The result for the limit with this index; nothing if the states did not fit into the store.
  std::optional<SweepResult> result(std::size_t limit) const;

 private:
  struct Version {
    Limit limit;
    std::shared_ptr<Space> space;
    int percent = 100;
    std::size_t origin = 0;
    std::uint8_t bit = 0;
  };

  bool follows(Tally::KeyId key) const;
  void add_keys(Tally::KeyId last);
  std::uint64_t keys_limited(const Version& version) const;

  void decide(const Version& version, std::span<const Request> requests,
              std::span<const Tally::KeyId> keys, Instant now);

  std::shared_ptr<Store> store_;
  std::vector<Version> versions_;
  std::size_t limits_;
  bool is_stopped_ = false;
  /// The keys so far, and how many of those after the first are in the sample.
  std::uint64_t keys_ = 0;
  std::uint64_t later_ = 0;
  /// A later key is in the sample if its hash has none of these bits.
  std::uint64_t mask_ = 0;
  /// A row for each key, a byte for each limit, a bit for each version that has denied the key.
  std::vector<std::uint8_t> denied_;
  /// Used in decide(): the indices of the requests whose keys it follows, and of those that a
  /// version decides, with their requests and decisions.
  std::vector<std::size_t> followed_;
  std::vector<std::size_t> asking_;
  std::vector<Request> asked_;
  std::vector<Decision> decisions_;
};

}  // namespace sluice::replay

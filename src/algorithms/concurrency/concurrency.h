#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/algorithm.h"
#include "core/permits.h"

namespace sluice {

/// concurrency L, lease D: at most L permits at the same time. A permit counts from when it is
/// acquired or was last renewed, for the lease: who crashes while holding one keeps it from others
/// no longer. See README.md.
struct Concurrency {
  static constexpr std::string_view kName = "concurrency";
  /// Permits are kept one by one.
  static constexpr std::int64_t kMaxLimit = 65'536;
  static constexpr std::int64_t kDefaultLeaseNs = 60'000'000'000;
  /// Joins no other limit by `&`.
  static constexpr bool kAlone = true;

  struct Params {
    std::int64_t limit = 1;
    std::int64_t lease_ns = kDefaultLeaseNs;

    friend bool operator==(const Params&, const Params&) = default;
  };
  using State = PermitList;
  using Change = PermitChange;

  /// What an answer needs to know of the permits that are held after it.
  struct Held {
    std::int64_t count = 0;
    /// Where the limit is used up: when enough will have lapsed for another one.
    Instant room_ns = 0;
    /// When the last lapses.
    Instant last_ns = 0;
  };
  static Decision answer(const Params& params, const Held& held, bool allowed, const Call& call);

  /// `call.permit` is taken where the cost is 1. O(permits that have lapsed).
  static Step<Change> take(const Params& params, const State& state, const Call& call);
  /// O(permits held).
  static Step<Change> renew(const Params& params, const State& state, const Call& call);
  static Step<Change> release(const Params& params, const State& state, const Call& call);

  static bool keeps_state(const Params&, const Params&) { return true; }
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
};

static_assert(LendingAlgorithm<Concurrency>);

}  // namespace sluice

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/algorithm.h"
#include "core/permits.h"

namespace sluice {

/// concurrency L, lease D: at most L permits at the same time. A permit counts for one lease from
/// its acquisition or its last renewal, so a crashed holder blocks its place for at most one lease.
/// See README.md.
struct Concurrency {
  static constexpr std::string_view kName = "concurrency";
  /// Bounded, since each permit is stored.
  static constexpr std::int64_t kMaxLimit = 65'536;
  static constexpr std::int64_t kDefaultLeaseNs = 60'000'000'000;
  /// Cannot be joined with other limits by `&`.
  static constexpr bool kAlone = true;

  struct Params {
    std::int64_t limit = 1;
    std::int64_t lease_ns = kDefaultLeaseNs;

    friend bool operator==(const Params&, const Params&) = default;
  };
  using State = PermitList;
  using Change = PermitChange;

  /// What a decision needs to know about the permits that are held after it.
  struct Held {
    std::int64_t count = 0;
    /// If the limit is used up: the instant at which enough permits have expired for another one.
    Instant room_ns = 0;
    /// The instant at which the last permit expires.
    Instant last_ns = 0;
  };
  static Decision answer(const Params& params, const Held& held, bool allowed, const Call& call);

  /// Acquires `call.permit` if the cost is 1. O(log n) of n permits. The store then removes the
  /// expired ones, if the permit is acquired.
  static Step<Change> take(const Params& params, const State& state, const Call& call);
  /// O(held permits).
  static Step<Change> renew(const Params& params, const State& state, const Call& call);
  static Step<Change> release(const Params& params, const State& state, const Call& call);

  static std::string state_kind(const Params&) { return std::string(kName); }
  static Params define(PartSyntax& syntax);
  static std::string describe(const Params& params);
  static LimitNumbers numbers(const Params& params) { return window_numbers(params.limit, 0); }
};

static_assert(LendingAlgorithm<Concurrency>);

}  // namespace sluice

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "core/instant.h"
#include "sluice/decision.h"

namespace sluice::model {

/// Wide enough for every sum and product of two 64-bit numbers in the definitions, so that nothing
/// in the model overflows.
__extension__ using Wide = __int128;

inline std::chrono::nanoseconds ns(Wide value) {
  return std::chrono::nanoseconds(static_cast<std::int64_t>(value));
}

enum class Kind : std::uint8_t {
  kFixedWindow,
  kSlidingLog,
  kSlidingWindow,
  kSlidingCounter,
  kTokenBucket,
  kLeakyBucket,
  kConcurrency,
};

/// One algorithm with its numbers. Options that the kind does not have are ignored.
struct ModelLimit {
  Kind kind = Kind::kTokenBucket;
  std::int64_t count = 1;
  std::int64_t window_ns = 1;  ///< concurrency: the lease.
  /// token_bucket; by default `count`.
  std::optional<std::int64_t> burst = std::nullopt;
  /// leaky_bucket.
  std::int64_t queue = 0;
  /// sliding_window; by default a tenth of the window, rounded up.
  std::optional<std::int64_t> precision_ns = std::nullopt;
  bool strict = true;         ///< sliding_window.
  bool anchor_first = false;  ///< fixed_window.
  bool borrow = false;        ///< token_bucket.

  /// The expression from which sluice::Limit makes this limit. It omits options that are not given.
  std::string expression() const;

  /// Whether all numbers and their products are within the ranges of a definition.
  bool definable() const;

  /// The time between two units of a bucket, ceil(window / count).
  Wide interval_ns() const;
  /// The most units that can be admitted at once.
  Wide most() const;
  /// sliding_window: the length of a sub-window, and how many of them cover the window.
  Wide sub_window_ns() const;
  Wide sub_windows() const;
};

/// One request to one part.
struct PartCall {
  Instant now = 0;
  std::int64_t cost = 1;
  std::int64_t patience_ns = -1;  ///< -1: the algorithm's own default.
  std::uint64_t permit = 0;       ///< concurrency.
};

/// The state of one key under an algorithm that spends units: simply all its admissions, or the
/// bucket's instant. Every decision is computed from that by the definition and not by a formula:
/// retry_after by searching for the first instant that admits.
class PartState {
 public:
  /// Takes or denies; with cost 0 it is a peek. A denial leaves the state unchanged.
  Decision take(const ModelLimit& limit, const PartCall& call);
  /// Refunds units, then answers as a peek.
  Decision refund(const ModelLimit& limit, const PartCall& call);
  /// Takes unconditionally, then answers as a peek.
  Decision charge(const ModelLimit& limit, const PartCall& call);
  Decision peek(const ModelLimit& limit, Instant now) const;

  /// Whether the state has the same meaning under `limit`: buckets keep their instant under any
  /// numbers, the others only if window, precision and anchor are the same.
  bool readable_under(const ModelLimit& limit) const;

 private:
  struct Admitted {
    Wide at = 0;
    Wide units = 0;
  };
  struct Used {
    Wide previous = 0;
    Wide current = 0;
  };
  /// The properties that must be equal for the state to be kept: kind, window, sub-window, anchor.
  using Shape = std::tuple<Kind, Wide, Wide, bool>;

  static Shape shape_of(const ModelLimit& limit);
  Wide judged_at(const ModelLimit& limit, Wide now) const;
  std::size_t first_window_begin() const;
  std::size_t first_counted(const ModelLimit& limit, Wide at) const;
  void forget_before(std::size_t first);
  Wide sum_counted(const ModelLimit& limit, Wide at) const;
  Used counter_use(const ModelLimit& limit, Wide at) const;
  Wide window_end(const ModelLimit& limit, Wide at) const;

  bool admits(const ModelLimit& limit, Wide now, const PartCall& call) const;
  bool counter_admits(const ModelLimit& limit, Wide at, Wide units) const;
  bool out_of_numbers(const ModelLimit& limit, const PartCall& call) const;
  Wide smallest_wait(const ModelLimit& limit, const PartCall& call) const;
  Wide wait_ns(const ModelLimit& limit, Wide now, Wide units) const;
  Wide remaining(const ModelLimit& limit, Instant now) const;
  Wide reset_after(const ModelLimit& limit, Instant now) const;

  std::optional<Shape> shape_;
  Wide tat_ = 0;
  std::vector<Admitted> admitted_;
  /// The instant of the last admission. The two windows of a counter stay where they are even if
  /// the units of the newer one are refunded, as long as the older one has units.
  Wide newest_ = 0;
};

/// The state of one key under a `concurrency` limit: its permits, each with the instant at which it
/// expires, in the order in which they were granted.
class PermitBook {
 public:
  Decision peek(const ModelLimit& limit, Instant now) const;
  /// Grants the permit with the call's id, or denies; with cost 0 it is a peek.
  Decision take(const ModelLimit& limit, const PartCall& call);
  /// Renew or release a permit that is held; otherwise deny, with kNever.
  Decision renew(const ModelLimit& limit, const PartCall& call);
  Decision release(const ModelLimit& limit, const PartCall& call);

 private:
  struct Permit {
    std::uint64_t id = 0;
    Wide expires = 0;
  };

  Wide held_at(Wide now) const;
  bool holds(const PartCall& call) const;
  /// Removes expired permits, and the call's own.
  void forget(const PartCall& call);
  Decision denied(const ModelLimit& limit, Instant now, Wide retry) const;

  std::vector<Permit> permits_;
};

}  // namespace sluice::model

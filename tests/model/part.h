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

/// Wide enough for every sum and product of two 64-bit numbers that the rules contain, so that the
/// model never has to think about overflow.
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

/// One algorithm with its numbers, as a person would write it. An option that its kind does not
/// know is ignored.
struct ModelLimit {
  Kind kind = Kind::kTokenBucket;
  std::int64_t count = 1;
  std::int64_t window_ns = 1;  ///< concurrency: the lease.
  /// token_bucket; `count` where not given.
  std::optional<std::int64_t> burst = std::nullopt;
  /// leaky_bucket.
  std::int64_t queue = 0;
  /// sliding_window; a tenth of the window, rounded up, where not given.
  std::optional<std::int64_t> precision_ns = std::nullopt;
  bool strict = true;         ///< sliding_window.
  bool anchor_first = false;  ///< fixed_window.
  bool borrow = false;        ///< token_bucket.

  /// The text that sluice::Limit reads as this limit. Defaults that were not given are not written.
  std::string expression() const;

  /// Whether all numbers and their products are within the ranges a definition must keep.
  bool definable() const;

  /// The time between two units of a bucket, ceil(window / count).
  Wide interval_ns() const;
  /// The most units that can ever be admitted at once.
  Wide most() const;
  /// sliding_window: the length of a sub-window, and how many of them cover the window.
  Wide sub_window_ns() const;
  Wide sub_windows() const;
};

/// One question to one part.
struct PartCall {
  Instant now = 0;
  std::int64_t cost = 1;
  std::int64_t patience_ns = -1;  ///< -1: the algorithm's own default.
  std::uint64_t permit = 0;       ///< concurrency.
};

/// What one key has left behind under one algorithm that is spent from: simply everything it was
/// ever admitted, or the bucket's instant. Every answer is worked out from that again each time, by
/// definition rather than by formula: retry_after by searching for the first instant that admits.
class PartState {
 public:
  /// Takes or refuses; with cost 0, peeks. A refusal leaves the state as it was.
  Decision take(const ModelLimit& limit, const PartCall& call);
  /// Gives units back, then answers as a peek.
  Decision refund(const ModelLimit& limit, const PartCall& call);
  /// Takes whatever there is, then answers as a peek.
  Decision charge(const ModelLimit& limit, const PartCall& call);
  Decision peek(const ModelLimit& limit, Instant now) const;

  /// Whether what is kept here can be read under `limit`: buckets keep their instant under any
  /// numbers, the others only where window, precision and anchor are the same.
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
  /// What must be equal for the state to be kept: kind, window, sub-window, anchor.
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
  /// When the last was admitted. A counter's two windows keep their place though the newer one's
  /// units were given back, as long as the older one has any.
  Wide newest_ = 0;
};

}  // namespace sluice::model

#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <string>
#include <string_view>

#include "sluice/export.h"

namespace sluice {

/// Who answered. A decision always has an answer; this says how far to trust it.
enum class Source : std::uint8_t {
  kStore,   ///< The store that holds the state.
  kFull,    ///< The memory store had no room for the key and nothing it may evict: denied.
  kCache,   ///< This process, which remembers that the store denied as much until a time to come:
            ///< `retry_after` and `remaining` are then the least that they can be.
  kLocal,   ///< This process alone, by a memory store of its own: the store did not answer.
  kPolicy,  ///< Nobody: the store did not answer, and `on_failure` says allow, or deny.
  kUnanswered,  ///< Nobody. Not allowed; whether it was charged is not known. Never returned by a
                ///< Limiter: where `on_failure` says raise, it throws instead.
};

/// A wait that never ends: the request can never be admitted. It is the longest wait there is, so
/// it compares as one. On the wire and in files it is -1.
inline constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::max();

/// The answer to "may this caller go ahead now?". A denied request has changed nothing.
struct Decision {
  /// Whether the caller may go ahead.
  bool allowed = false;
  /// Who said so.
  Source source = Source::kStore;
  /// The most units the limit can ever admit at once. (Under `borrow=yes` a single request may cost
  /// more than this, and pass.)
  std::int64_t limit = 0;
  /// The most units that would be admitted at this instant, after this decision. Never negative.
  std::int64_t remaining = 0;
  /// 0 if allowed. If denied, the smallest wait after which the same request would be admitted if
  /// nobody else came; kNever if it can never be.
  std::chrono::nanoseconds retry_after{0};
  /// The wait until the key behaves as if it had never been seen; 0 for a fresh key.
  std::chrono::nanoseconds reset_after{0};
  /// The caller may go ahead after this wait. 0 except where a request is admitted on condition
  /// that it waits: the leaky bucket, and reservations.
  std::chrono::nanoseconds delay{0};
  /// What take_up_to() took; 0 in all other answers.
  std::int64_t taken = 0;

  /// `if (limiter.check(key)) ...`: whether the caller may go ahead. Where `delay` is above 0 the
  /// caller waits that long first.
  explicit operator bool() const { return allowed; }

  /// Equal in everything.
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The decision in words, for logs and tests: "denied: 0 of 5 left, retry after 2m, reset after
/// 10m". Says who answered where that is not the store. The wording may change.
SLUICE_EXPORT std::string to_string(const Decision& decision);
/// Writes to_string().
SLUICE_EXPORT std::ostream& operator<<(std::ostream& out, const Decision& decision);
/// The source in lower case: "store", "full", "cache", "local", "policy" or "unanswered".
SLUICE_EXPORT std::string_view to_string(Source source);

/// Given the answer, or, where a Limiter would have thrown, the exception and a decision that means
/// nothing. Runs on the asking thread or on one of the library's, which others wait for: it does
/// little, does not wait, and throws nothing.
using DecisionCallback = std::function<void(const Decision&, std::exception_ptr)>;

/// The same where there is no answer but that it is done.
using DoneCallback = std::function<void(std::exception_ptr)>;

}  // namespace sluice

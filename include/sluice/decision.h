#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <iosfwd>
#include <limits>
#include <string>
#include <string_view>

#include "sluice/export.h"

namespace sluice {

/// Where a decision comes from. Every request gets a decision; the source says how reliable it is.
enum class Source : std::uint8_t {
  kStore,   ///< The store that keeps the key's state.
  kFull,    ///< The memory store had no room for the key, and no key that it could evict. Denied,
            ///< unless the store's URL says full=allow and the key has no state: then units and
            ///< permits are granted without a record, and other changes are still denied.
  kCache,   ///< The deny cache of this process: the store has denied the key, and that denial still
            ///< holds. `retry_after` is a lower bound, `remaining` what the store last said.
  kLocal,   ///< The local states of this process, because the store did not answer.
  kPolicy,  ///< The failure policy, on_failure=allow or on_failure=deny, because the store did not
            ///< answer.
  kOverride,  ///< An override of a server's limit for the key (unlimited or deny), without asking
              ///< the store. The library's functions never return this.
  kUnavailable,  ///< None: the store did not answer. Not allowed; it is not known whether the store
                 ///< has charged the request. A Limiter returns this only in the decisions of a
                 ///< batch, beside a StoreError.
};

/// How a call that waits has ended.
enum class Ended : std::uint8_t {
  kAnswered,  ///< With a decision: allowed, or denied because no wait within the timeout would have
              ///< helped, the queue of a leaky_bucket is full, the key was blocked, or too many
              ///< callers wait. Calls that do not wait always end so.
  kTimedOut,  ///< Denied: the timeout passed while the caller waited.
  kStopped,   ///< Denied: the stop token was requested to stop, or the operation cancelled.
};

/// A wait that never ends: the request can never be admitted. It is the longest wait there is, so
/// it compares as one. On the wire and in files it is -1.
inline constexpr std::chrono::nanoseconds kNever = std::chrono::nanoseconds::max();

/// Decision::limit and Decision::remaining of a key that an override of a server's limit allows
/// everything.
inline constexpr std::int64_t kUnlimited = std::numeric_limits<std::int64_t>::max();

/// The answer to a request: may this caller go ahead now? A denied request has changed nothing.
struct Decision {
  /// Whether the caller may go ahead, after `delay`.
  bool allowed = false;
  /// Where the decision comes from.
  Source source = Source::kStore;
  /// The index of the part of an `a & b`, or of the claim of a check_all(), whose numbers these
  /// are: the binding one. If any denies, it is the denying one with the longest retry_after; if
  /// all admit, the one with the least remaining; in both cases the first such. `limit`,
  /// `remaining`, `retry_after` and `reset_after` are its own; `delay` is the longest of all. 0 if
  /// there is only one part or claim.
  std::uint8_t binding = 0;
  /// If acquire() denied: why.
  Ended ended = Ended::kAnswered;
  /// A server's limit in a dry run has allowed a request that it would have denied otherwise. The
  /// library's functions never set this.
  bool would_deny = false;
  /// The most units that the limit can admit at once. (With `borrow=yes` a single request may cost
  /// more than this and still pass.)
  std::int64_t limit = 0;
  /// The units that are left after this decision: the most that would be admitted at this instant.
  /// Never negative.
  std::int64_t remaining = 0;
  /// If denied: the shortest wait after which the same request would be admitted if no other
  /// request for the key came first, or kNever. If allowed: 0. A caller that acquire() has denied
  /// while it waited behind others gets the numbers of the store's last denial: that of the first
  /// caller in its queue, for the cost of that one. If the store has denied no caller of the queue
  /// yet, this is 5 ms, which says nothing.
  std::chrono::nanoseconds retry_after{0};
  /// The time until the key is fresh, that is, behaves as if never seen; 0 if it is fresh. Of an
  /// `a & b`: until the binding part is.
  std::chrono::nanoseconds reset_after{0};
  /// If allowed: how long after this decision the caller may go ahead. From check(): above 0 only
  /// with a leaky_bucket, and the caller must wait. From reserve(): Reservation::wait() waits. From
  /// acquire(), async_acquire() and acquire_all(): the caller has waited already.
  std::chrono::nanoseconds delay{0};
  /// The units that take_up_to() took; 0 for all other calls.
  std::int64_t taken = 0;

  /// `if (limiter.check(key)) ...`: the same as `allowed`. The caller may have to wait first: see
  /// `delay`.
  explicit operator bool() const { return allowed; }

  /// True if all members are equal.
  friend bool operator==(const Decision&, const Decision&) = default;
};

/// The decision in words, for logs and tests: "denied: 0 of 5 left, retry after 2m, reset after
/// 10m". Names the source if it is not the store. The wording may change.
SLUICE_EXPORT std::string to_string(const Decision& decision);
/// Writes to_string().
SLUICE_EXPORT std::ostream& operator<<(std::ostream& out, const Decision& decision);
/// "answered", "timed out" or "stopped".
SLUICE_EXPORT std::string_view to_string(Ended ended);
/// The source in lower case: "store", "full", "cache", "local", "policy", "override" or
/// "unavailable".
SLUICE_EXPORT std::string_view to_string(Source source);

/// Receives the result of an asynchronous call. If the blocking call would have thrown, it receives
/// the exception, and the decision has no meaning; otherwise the exception is null. It runs on the
/// calling thread or on a thread of the library, on which other callers depend: it must be short,
/// must not block, and must not throw. (A blocking call in it that would wait for its own thread,
/// and so for ever, throws std::logic_error.) If the store is destroyed while the call is pending,
/// it runs on the thread that lets go of the store's last share, within its destructor: that thread
/// must hold no lock that callbacks take.
using DecisionCallback = std::function<void(const Decision&, std::exception_ptr)>;

/// As DecisionCallback, for calls without a result.
using DoneCallback = std::function<void(std::exception_ptr)>;

}  // namespace sluice

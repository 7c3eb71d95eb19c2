#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sluice/decision.h"
#include "sluice/export.h"
#include "sluice/store.h"

namespace sluice {

/// The present state of a store, and counters of what has happened since it was opened. Members
/// that do not apply to a store are 0 or empty: a memory store has no servers, and counts neither
/// answers nor round trips.
struct StoreHealth {
  /// Whether requests can reach the store.
  enum class State : std::uint8_t {
    kConnecting,  ///< Not all servers have answered yet since the store was opened, and none has
                  ///< failed to answer.
    kUp,          ///< All servers that the store uses are connected.
    kDown,        ///< At least one cannot be used: `reason` says which one and why.
  };

  /// The present state.
  State state = State::kConnecting;
  /// When `state` became what it is.
  std::chrono::system_clock::time_point since;
  /// Why the store is down, or was when it was down last: one sentence, without a password.
  std::string reason;
  /// How often it has gone down.
  std::uint64_t times_lost = 0;

  /// The deadline of a decision: the option `deadline` of the URL.
  std::chrono::nanoseconds deadline{0};
  /// From when a request was sent until its reply was read: the median of the last 1,024 replies.
  std::chrono::nanoseconds round_trip_p50{0};
  /// The 99th percentile of the same.
  std::chrono::nanoseconds round_trip_p99{0};
  /// Replies that came after the deadline. A reply to several requests counts once. One that this
  /// process was late to read, so that it may have been there in time, does not count.
  std::uint64_t late_replies = 0;
  /// How often the store became late: eight successive replies came after the deadline. It is
  /// counted again only after eight successive replies were in time.
  std::uint64_t times_late = 0;
  /// When the store last became late: the longest of those eight round trips.
  std::chrono::nanoseconds late_round_trip{0};
  /// A deadline with which those replies would have been in time: twice the longest round trip, in
  /// whole milliseconds.
  std::chrono::nanoseconds sufficient_deadline{0};
  /// Requests without an answer by the deadline, because the server was late. One that the server
  /// has refused, before the deadline or after it, counts as `refused` only. One that it may still
  /// answer is counted when it does, or when the connection is given up.
  std::uint64_t late_server = 0;
  /// Requests without an answer by the deadline, because this process was late: it got no processor
  /// time, and looked for the reply more than 1 ms after the deadline.
  std::uint64_t late_here = 0;

  /// Requests that a server answered with an error, since it has no memory left, waits for its
  /// replicas, refuses this user or lacks a slot, or since the key holds something else; or
  /// requests that a memory store refused, since it has no room for their limit. The store may be
  /// up.
  std::uint64_t refused = 0;
  /// The last such error, after the name of the server, without the key: "redis 10.0.0.7:6379: OOM
  /// command not allowed when used memory > 'maxmemory'."
  std::string refusal;

  /// How many answers of the store showed that a clock by which keys are decided is more than a
  /// second behind: that of this process (Memcached, `time=client`), or that of a Redis server,
  /// which was set back, or follows one whose clock was later. Buckets deny for that much longer.
  std::uint64_t clock_behind = 0;
  /// Which clock the last of these answers was about: "this process's clock", "the clock of redis
  /// 10.0.0.7:6379".
  std::string late_clock;
  /// How far that clock was behind then, at least: a key tells when it was written last, in whole
  /// units of about a second.
  std::chrono::nanoseconds clock_lag{0};

  /// Requests that the store has answered, also those that charge it with what local states had
  /// admitted.
  std::uint64_t answered_by_store = 0;
  /// Decisions that the deny cache of this process has made.
  std::uint64_t answered_by_cache = 0;
  /// Decisions that the local states of this process have made.
  std::uint64_t answered_by_local = 0;
  /// Decisions that the failure policy has made.
  std::uint64_t answered_by_policy = 0;
  /// Requests that the store did not answer, including those that the local states or the failure
  /// policy answered in its place.
  std::uint64_t unanswered = 0;
  /// Units that local states had admitted, and that the store has charged: when it was back, or by
  /// the request itself, whose answer came after the deadline.
  std::uint64_t charged_back = 0;
  /// Units that local states had admitted, and that may never be charged to the store.
  std::uint64_t not_charged_back = 0;

  /// Keys that a full memory store has evicted although they were not fresh.
  std::uint64_t evicted = 0;
  /// Requests for a new key that found no room in a memory store.
  std::uint64_t without_room = 0;
};

/// The health of a store. Takes some microseconds. Thread-safe.
SLUICE_EXPORT StoreHealth health(const Store& store);

/// The number of requests of one limit that had the same outcome.
struct DecisionCount {
  /// Limit::space(): the limit's name, or its canonical expression if it has none.
  std::string limit;
  /// Whether they were allowed.
  bool allowed = false;
  /// Where their decisions come from. kUnavailable: a StoreError was raised instead.
  Source source = Source::kStore;
  /// Their number.
  std::uint64_t decisions = 0;
};

/// How many requests of this process have asked for units or permits, by limit and outcome: of each
/// limit that a Limiter or ConcurrencyLimiter uses now, since it was opened, or since set_limit()
/// last made its keys start fresh. Outcomes that did not occur are left out. Each claim of a
/// check_all() counts its own decision; one that would have admitted what another claim denies
/// counts nothing. Each time that a waiting caller asks again counts. Only for a store on another
/// machine: a memory store counts none, since a counter that all threads share would cost as much
/// as the decision itself. Thread-safe.
SLUICE_EXPORT std::vector<DecisionCount> decision_counts(const Store& store);

/// Something that has happened to a store.
struct StoreEvent {
  /// What has happened.
  enum class Kind : std::uint8_t {
    kUp,       ///< The store is connected, for the first time or after a loss that was reported.
    kDown,     ///< A server cannot be reached or used, or is of another kind than the URL says.
               ///< Reported again while the store is lost for each further reason: 16 at once,
               ///< then one in a minute, at most 1,000. Of losses that follow each other without
               ///< a quiet minute, 16 are reported, then one in a minute.
    kLate,     ///< Eight successive replies came after the deadline. Reported once, and again only
               ///< after eight successive replies were in time, if no such series began in the
               ///< minute before.
    kRefused,  ///< A server has refused a request: see StoreHealth::refusal. Reported once, and
               ///< again only after a minute without a refusal, or for each further error: as
               ///< many until then as of kDown.
    kClock,    ///< A clock by which the store decides is behind: see StoreHealth::clock_behind.
               ///< Reported once, and again only after a minute without such an answer.
    kFull,     ///< A memory store evicts keys or has no room for new ones. Reported once, and again
               ///< only after a minute in which neither happened.
  };

  /// What has happened.
  Kind kind = Kind::kUp;
  /// One sentence that names the store by its URL, without a password: "the store
  /// redis://127.0.0.1 is lost: cannot connect to 127.0.0.1:6379: Connection refused".
  std::string message;
  /// The store's health when this was noticed.
  StoreHealth health;
};

/// Receives the events of a store, in order.
///
/// A thread of the library calls it, for one event after the other, within about 100 ms of the
/// event. If the store is lost and back within that time, both events are reported. Other callers
/// depend on that thread, so the function must be short, must not block and must not throw: it
/// writes a line to a log or sets a metric. It may call health(), but must not ask a limiter, since
/// that may wait for the store. No call begins after the store is destroyed, but one may still be
/// running: objects that the function refers to must outlive the store, or be owned by the
/// function.
using StoreObserver = std::function<void(const StoreEvent&)>;

/// open_store() of store.h, with an observer of the store. A null observer is allowed. Throws as
/// that one, and std::system_error if the system cannot start the library's timer thread.
SLUICE_EXPORT std::shared_ptr<Store> open_store(std::string_view url, StoreObserver observer);

}  // namespace sluice

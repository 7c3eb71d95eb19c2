#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include "sluice/export.h"
#include "sluice/store.h"

namespace sluice {

class TimerThread;

/// A clock for tests, which stands still until the test advances it. A memory store that is opened
/// with it decides by this clock, and callers of its limits wait by it: in acquire(),
/// acquire_all(), reservations, throttle and funnel; permits and their leases use it too. So a test
/// of an hour's limit takes no time and has the same result each time.
///
///     sluice::ManualClock clock;
///     sluice::Limiter login(sluice::open_store("memory:", clock),
///                           sluice::Limit("fixed_window 1/1h"));
///     login.check("bob");               // Allowed.
///     login.check("bob");               // Denied, with a retry_after of an hour.
///     clock.advance(1h);
///     login.check("bob");               // Allowed.
///
/// (A coroutine that waits for a Reservation by asio.h waits by the clock of its executor.)
/// Thread-safe. Stores that are opened with it may outlive it: for them time then stands still.
class SLUICE_EXPORT ManualClock {
 public:
  /// Begins at 2001-09-09 00:00:00 UTC, when windows of a minute, an hour and a day begin. Throws
  /// std::system_error if the system cannot start a thread.
  ManualClock();
  /// Not copyable: the stores refer to one clock.
  ManualClock(const ManualClock&) = delete;
  /// Not copyable.
  ManualClock& operator=(const ManualClock&) = delete;

  /// The time that it shows.
  std::chrono::system_clock::time_point now() const;

  /// Advances the clock by `time`. Waits and leases that end meanwhile end in order, each at its
  /// own instant; callbacks have been called when this returns. A thread whose wait has ended runs
  /// while the clock goes on: if the test needs it to wait several times, advance step by step,
  /// with await_waiting() in between. Throws std::invalid_argument if `time` is negative, or more
  /// than 100 years would have passed since the beginning. Must not be called in a callback.
  void advance(std::chrono::nanoseconds time);

  /// Blocks until `threads` threads wait by this clock: in acquire(), acquire_all(),
  /// Reservation::wait(), throttle or funnel. A thread whose wait is over does not count, even
  /// before it goes on.
  void await_waiting(std::size_t threads);

 private:
  friend std::shared_ptr<Store> open_store(std::string_view url, ManualClock& clock);

  const std::shared_ptr<TimerThread> timer_;
};

/// Opens a memory store, `memory:` with its options, that goes by this clock. Throws StoreError,
/// also for the URL of another store.
SLUICE_EXPORT std::shared_ptr<Store> open_store(std::string_view url, ManualClock& clock);

}  // namespace sluice

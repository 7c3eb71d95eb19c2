#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "core/instant.h"
#include "core/store.h"
#include "core/waiting.h"
#include "net/event_loop.h"
#include "net/exchange.h"
#include "stores/remote/errand.h"
#include "stores/remote/trip.h"

namespace sluice {

/// Who takes errands to servers. All are called on the courier's thread, and throw nothing.
class Carrier {
 public:
  virtual ~Carrier() = default;

  /// Takes an errand over until Courier::done() or fail() is called for it, or abandon() with it.
  virtual void carry(Errand& errand) = 0;

  /// All that came at once has been carried: send it.
  virtual void dispatch() = 0;

  /// The errand's time is up: forget it, wherever it is. Its requests and its decision may be gone
  /// after this call. Returns why it has no answer, a sentence: "x did not answer". Valid until the
  /// carrier is called again.
  virtual std::string_view abandon(Errand& errand) = 0;
};

/// Takes inquiries from any thread to a carrier on a thread of its own, and answers each within
/// the deadline: what has no decision by then is kUnanswered.
class Courier {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::nanoseconds deadline;
    /// More requests that have no answer yet are not taken: they are unanswered at once.
    std::int64_t max_errands = 100'000;
  };

  /// `carrier` outlives stop(). Throws std::system_error where the system gives no thread or
  /// descriptor.
  Courier(Carrier& carrier, const Options& options);
  /// As stop(); then answers what is still open: kUnanswered.
  ~Courier();
  Courier(const Courier&) = delete;
  Courier& operator=(const Courier&) = delete;

  /// Begins to serve: the thread starts, and runs `first` before anything else. REQUIRES: called
  /// once. Throws std::system_error where the system gives no thread.
  void start(std::function<void()> first);

  /// Ends the thread. Nothing is carried any more, and no timer runs: what they refer to can go.
  void stop();

  EventLoop& loop() { return loop_; }
  std::chrono::nanoseconds deadline() const { return options_.deadline; }
  /// On the courier's thread: when what was carried last began to be.
  Clock::time_point round_began() const { return round_began_; }

  /// From any thread: takes the inquiry, to be answered at `deadline` at the latest. False where it
  /// was answered at once (answered() is not called): there is too much to do. On the courier's own
  /// thread, from answered(), it takes no lock and wakes nobody.
  bool submit(Inquiry& inquiry, Clock::time_point deadline);
  /// The same, the usual time from now. Who asks again from answered() shares a look at the clock
  /// with the few who are told with it, or has the cheap one where they take long.
  bool submit(Inquiry& inquiry) { return submit(inquiry, now() + options_.deadline); }

  /// On the courier's thread: the errand's decision is made. Who asked is told of it at the end of
  /// this round of events, together with what else is answered in it.
  void done(Errand& errand) noexcept;
  /// On the courier's thread: there will be none. Needs no memory: where there is none for `why`,
  /// kNoMemory is said instead.
  void fail(Errand& errand, std::string_view why) noexcept;

 private:
  class Service;
  /// Where trips wait, of one side: the courier's own thread, or all others.
  struct Platform {
    TripList& idle;
    TripList& arrived;
  };

  // Those who are told may take long: that is not to be at the cost of those who are told next.
  Clock::time_point now() const {
    return loop_.is_here() && telling_ ? std::max(told_at_, steady_now_cheaply()) : Clock::now();
  }
  bool make_room(std::int64_t count);
  void give_room_back(std::int64_t count);
  static void depart(Inquiry& inquiry, Clock::time_point deadline, Platform at);
  void serve();
  void tell();
  void collect();
  void watch();
  void expire();
  void end(Trip& trip) noexcept;

  Carrier& carrier_;
  Options options_;
  EventLoop loop_;
  std::thread thread_;
  Timer timer_;  // When the first trip may be late.
  Clock::time_point round_began_;
  TripList under_way_;  // By deadline, the earliest first.
  TripList ended_;      // Who asked is still to be told.
  bool telling_ = false;
  Clock::time_point told_at_;  // While telling: a moment ago.
  TripList arrived_here_;      // From the courier's own thread.
  TripList idle_here_;         // To be used again, with the room they have.
  std::shared_ptr<Service> service_;

  // Errands without an answer are the sum of these: those that other threads have asked for, and
  // those of the courier's own less all that were answered. Nobody else writes the latter while
  // that thread runs, so it takes no turns.
  std::atomic<std::int64_t> asked_elsewhere_ = 0;
  alignas(64) std::atomic<std::int64_t> asked_here_ = 0;
  std::int64_t left_ = 0;  // These are answered, and nobody was told since.

  std::mutex mutex_;
  // Guarded by mutex_:
  TripList arrived_;
  TripList idle_;
  bool called_ = false;  // The thread has been told that something has arrived.
};

/// Leaves every decision kUnanswered, for this reason.
void leave_unanswered(Inquiry& inquiry, std::string_view why);

/// Asks, and waits for the answer: what decide() of a store that answers later does. From any
/// thread but the courier's. Throws StoreError where some of the decisions are kUnanswered.
void ask_and_wait(Courier& courier, AwaitedInquiry& inquiry, Courier::Clock::time_point deadline);

}  // namespace sluice

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>

#include "limiter/timekeeper.h"
#include "limiter/waiter.h"

namespace sluice {

class WaitingLines;

/// Those of this process who wait for one key, first come first served. Only the first asks the
/// store, one asking at a time: when it comes, as what was denied to it before may have been given
/// back by then, and again
/// - when a permit or units were given back in this process, the key was reset or its limit changed
///   here, or the store tells of a permit elsewhere;
/// - once `retry_after` is over: of a window's denial exactly then;
/// - of a permit that other processes share earlier: after a pause of 5 ms, then of twice as much
///   each time up to 100 ms, each with jitter, so that processes do not ask in step; of up to 20 ms
///   once the others have had their turn, where nobody tells this process that it is the next.
/// Who is granted, or denied for good, or has no patience left, leaves, and the next one asks.
///
/// None starves. In the line, nobody is overtaken: a waiter's turn comes when those before it have
/// left, each of whom leaves with a permit that ends (it is given back, or lapses) or at the end of
/// its patience; who comes later and asks directly does so only where nobody waits. Between
/// processes, a permit that is given back goes to whoever asks first. No process is always the
/// first: it rests when it has had its turn (see Turns), for as long as every other line's first
/// needs to ask once. Those who have waited longest ask most often and so are there before those
/// who had a turn of late.
///
/// A waiter of a large cost at a window holds up those behind it until it fits: that is what keeps
/// it from starving.
///
/// All functions are called on the timekeeper's thread. Owned by its entry in WaitingLines, by its
/// waiters, and by entries in the agenda.
class WaitingLine : public std::enable_shared_from_this<WaitingLine> {
 public:
  static constexpr std::chrono::milliseconds kLeastPause = kSoon;
  static constexpr std::chrono::milliseconds kMostPause{100};
  /// The longest pause of a line that has been granted nothing for kPassedOver: longer than a turn
  /// lasts.
  static constexpr std::chrono::milliseconds kMostPausePassedOver{20};
  static constexpr std::chrono::seconds kPassedOver{3};

  /// `lines` outlives its waiters.
  WaitingLine(WaitingLines& lines, std::shared_ptr<Timekeeper> keeper);

  /// Unless it has ended, or `stop` ends it before it comes.
  void join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop);
  /// Ends a waiter of this line at once. What it is granted nevertheless is given back.
  void leave(Waiter& waiter);
  /// A permit or units were given back, here or elsewhere.
  void released();

 private:
  using TimePoint = Timekeeper::TimePoint;

  void expire(Waiter& waiter);
  void answered();
  void serve();
  void settle();
  std::optional<TimePoint> next_try(const Waiter& waiter);
  TimePoint soonest(const Waiter& waiter) const;
  std::chrono::nanoseconds next_pause();
  void watch(const Waiter& waiter);
  void told();
  void finish(const std::shared_ptr<Waiter>& waiter, const Outcome* outcome);

  WaitingLines& lines_;
  const std::shared_ptr<Timekeeper> keeper_;
  std::list<std::shared_ptr<Waiter>> waiters_;
  std::shared_ptr<Waiter> asking_;   // The first, or one who has left in the meantime.
  bool released_meanwhile_ = false;  // While it was asking.
  /// When the first asks next, if it is not asking.
  TimePoint next_ask_;
  std::optional<Timekeeper::Timer> timer_;
  std::chrono::nanoseconds pause_ = kLeastPause;
  /// When somebody was granted something last, or the first came.
  TimePoint waits_since_;
  std::uint64_t jitter_;
  std::optional<Decision> denied_;  // The last denial of the line, and when it came.
  TimePoint denied_at_;
  bool is_watched_ = false;  // The store was asked to tell; it may have refused, now or later.
  bool is_told_ = false;     // It tells.
  std::unique_ptr<Watch> watch_;
};

}  // namespace sluice

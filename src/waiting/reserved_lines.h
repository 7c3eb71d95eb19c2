#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "waiting/timer_thread.h"

namespace sluice {

/// The callers of this process that have reserved units of the keys of one space and wait until the
/// units are there: a line for each key, in the order in which they came. Another process may have
/// reset the key, or given units back, so that they are there earlier: if the store is shared, one
/// caller of each line asks the store every kPauseForUnits whether it may go ahead. All functions
/// but size() are called on the timer thread.
class ReservedLines {
 public:
  /// Asks the store, without waiting for the answer. Returns false if the caller need not ask.
  using Ask = std::function<bool()>;

  /// A caller's place in a line, until it is destroyed. `ask` is null if no other process shares
  /// the store; it must not use the lines.
  class Place {
   public:
    Place(ReservedLines& lines, const std::shared_ptr<TimerQueue>& timer, std::string_view key,
          Ask ask);
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    ReservedLines& lines_;
    const std::string key_;
    const Ask ask_;
    std::list<const Place*>::iterator place_;

    friend class ReservedLines;
  };

  /// The number of callers. Thread-safe.
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

  /// The first caller of the key for which `ask` returns true asks now, and one again after each
  /// pause.
  void ask(std::string_view key);

 private:
  struct Line {
    std::shared_ptr<TimerQueue> timer;
    std::list<const Place*> callers;
    TimerQueue::Timer next_ask;
  };

  void ask_after_pause(Line& line, std::string_view key);

  std::map<std::string, Line, std::less<>> lines_;
  std::atomic<std::size_t> size_{0};
};

}  // namespace sluice

#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/store.h"
#include "limiter/timekeeper.h"
#include "limiter/turns.h"
#include "limiter/waiter.h"

namespace sluice {

class WaitingLine;

/// The lines of one space, in which the callers of this process wait: one for each key for which
/// somebody waits. All limiters over the space share them. Thread-safe.
///
/// At most kMostWaiting wait; one more is denied at once.
class WaitingLines final : public Space::Companion {
 public:
  static constexpr std::size_t kMostWaiting = 100'000;

  /// Who may not overtake those who wait, for this key: what a limiter asks before it asks the
  /// store on its own. As long as nobody waits for any key, that is one look at a number.
  bool nobody_waits(std::string_view key) const {
    return waiting_.load(std::memory_order_acquire) == 0 || !has_line(key);
  }

  /// How many wait, for all keys.
  std::size_t waiting() const { return waiting_.load(std::memory_order_acquire); }

  WaitingLines() = default;
  /// For tests. Else the timekeeper is the process's, from when somebody waits.
  explicit WaitingLines(std::shared_ptr<Timekeeper> keeper) : keeper_(std::move(keeper)) {}

  /// Waits in line. `finish` is called once, on the timekeeper's thread. `denied`: as Waiter's.
  /// Throws std::system_error where the system gives no thread.
  void wait(Wish wish, std::optional<Decision> denied, const std::stop_token& stop,
            Waiter::Finish finish);

  /// As wait(), but where nobody waits, asks the store first, and not one after the other.
  void ask(Wish wish, const std::stop_token& stop, Waiter::Finish finish);

  /// A permit or units of the key were given back, or the key was reset: the first in line asks
  /// again.
  void released(std::string_view key);
  /// Those of all keys: the limit is another.
  void released_all();

  Turns& turns() { return turns_; }

 private:
  friend class WaitingLine;
  struct Entry {
    std::shared_ptr<WaitingLine> line;
    std::size_t waiting = 0;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  bool has_line(std::string_view key) const;
  std::shared_ptr<Timekeeper> keeper();
  void join(const std::shared_ptr<Waiter>& waiter, const std::stop_token& stop = {});
  void join_or_end(const std::shared_ptr<Waiter>& waiter);
  void ask_directly(const std::shared_ptr<Waiter>& waiter);
  void settle(const std::shared_ptr<Waiter>& waiter);
  /// One has left the line of this key.
  void left(const std::string& key);

  std::atomic<std::size_t> waiting_{0};
  Turns turns_;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  std::shared_ptr<Timekeeper> keeper_;
  std::unordered_map<std::string, Entry, Hash, std::equal_to<>> lines_;
};

/// Goes for the wish and does not wait. Asks the store first, unless others `go_first`. `finish` is
/// called once: before this returns, or on the timekeeper's thread. What fails is an outcome, too.
void go_for(WaitingLines& lines, Wish wish, bool others_go_first, const std::stop_token& stop,
            const Waiter::Finish& finish);

/// Waits in line on the calling thread.
Outcome wait_in_line(WaitingLines& lines, Wish wish, std::optional<Decision> denied,
                     const std::stop_token& stop);

}  // namespace sluice

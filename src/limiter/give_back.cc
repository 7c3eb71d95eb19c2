#include "limiter/give_back.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <utility>

#include "limiter/held_permit.h"
#include "limiter/timekeeper.h"
#include "limiter/waiting_lines.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kMostAtExit{1};
// Until what the store did not answer is tried again.
constexpr std::chrono::milliseconds kFirstPause{10};
constexpr std::chrono::seconds kMostPause{1};

/// What is still on its way when the process ends.
class UnderWay {
 public:
  /// Never destroyed: what is on its way may arrive later than the last static object goes.
  static UnderWay& here() {
    static UnderWay& made = *[] {
      auto* fresh = new UnderWay;
      std::atexit([] { here().wait(); });
      return fresh;
    }();
    return made;
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

 private:
  void wait() {
    if (generation_ != fork_generation()) return;  // It was on its way in another process.
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, kMostAtExit, [&] { return count_ == 0; });
  }

  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable none_;
  std::size_t count_ = 0;  // guarded by mutex_
};

void wake(const BoundLimit& bound, const Request& request) {
  if (request.giver == Source::kUnanswered) return;  // They would ask without end.
  bound.space->companion<WaitingLines>().released(request.key);
}

/// One on its way. Owns itself. The slot, and the store with it, goes on the timekeeper's thread:
/// a store cannot end on its own.
class Returning final : public Inquiry {
 public:
  Returning(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
            const Request& request, std::shared_ptr<Timekeeper> keeper)
      : keeper_(std::move(keeper)),
        slot_(slot),
        bound_(bound),
        key_(request.key),
        request_(request) {
    request_.key = key_;
    requests = {&request_, 1};
    decisions = {&decision_, 1};
    if (request.giver == Source::kUnanswered) lapses_at_ = keeper_->after(lease_of(bound));
  }
  ~Returning() override {
    if (has_place_) places_taken_.fetch_sub(1, std::memory_order_relaxed);
  }

  void submit() {
    UnderWay::here().begin();
    decision_ = {.source = Source::kUnanswered};
    fault.clear();
    bool is_answered = true;
    try {
      is_answered = slot_->store()->submit(*this);
    } catch (const std::exception&) {
      // Not answered: see give_back().
    }
    if (is_answered) end();
  }

 private:
  // Those who wait are woken once it is known to have arrived: they would ask in vain before.
  void end() {
    UnderWay::here().end();
    std::unique_ptr<Returning> self(this);
    wake(bound_, request_);
    if (is_open() && has_place() && try_again()) static_cast<void>(self.release());
  }

  // Whether the store may count it yet, for as long as to be asked again.
  bool is_open() const {
    return request_.giver == Source::kUnanswered && decision_.source == Source::kUnanswered &&
           keeper_->after(pause_) < lapses_at_;
  }

  // A place among those that are tried again, until it goes.
  bool has_place() {
    if (has_place_) return true;
    has_place_ = places_taken_.fetch_add(1, std::memory_order_relaxed) < kMostTriedAgain;
    if (!has_place_) places_taken_.fetch_sub(1, std::memory_order_relaxed);
    return has_place_;
  }

  // Returns whether it will be. Until then it keeps no store from going.
  bool try_again() {
    const auto keeper = keeper_;  // It may run before this returns.
    const std::weak_ptr<const LimitSlot> slot = std::exchange(slot_, nullptr);
    const auto when = keeper->after(pause_);
    pause_ = std::min<std::chrono::nanoseconds>(kMostPause, 2 * pause_);
    try {
      keeper->at(when, [this, slot] {
        std::unique_ptr<Returning> self(this);
        slot_ = slot.lock();
        if (slot_) self.release()->submit();
      });
    } catch (const std::exception&) {
      return false;
    }
    return true;
  }

  void answered() noexcept override {
    const auto keeper = keeper_;
    keeper->post([this] { end(); });
  }

  static inline std::atomic<std::size_t> places_taken_{0};

  const std::shared_ptr<Timekeeper> keeper_;
  std::shared_ptr<const LimitSlot> slot_;  // Null between two tries.
  const BoundLimit& bound_;
  const std::string key_;
  Request request_;
  Decision decision_;
  Timekeeper::TimePoint lapses_at_;
  std::chrono::nanoseconds pause_ = kFirstPause;
  bool has_place_ = false;
};

}  // namespace

void give_back(const std::shared_ptr<const LimitSlot>& slot, const BoundLimit& bound,
               const Request& request, std::shared_ptr<Timekeeper> keeper) noexcept {
  try {
    if (slot->store()->answers_later()) {
      if (!keeper) keeper = Timekeeper::shared();
      (new Returning(slot, bound, request, std::move(keeper)))->submit();
    } else {
      give_back_now(*slot, bound, request);
    }
  } catch (const std::exception&) {
    // Not answered, or the system gives no memory or thread: as if it had been lost on its way.
  }
}

void give_back_now(const LimitSlot& slot, const BoundLimit& bound,
                   const Request& request) noexcept {
  try {
    slot.ask(request);
  } catch (const std::exception&) {
    // As above.
  }
  wake(bound, request);
}

}  // namespace sluice

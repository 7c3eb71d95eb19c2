#include "limiter/give_back.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
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

/// What this process has on its way, and what of it is tried again.
class UnderWay {
 public:
  /// That of this process. A child of fork() has one of its own, with nothing in it: the lock may
  /// be held in its parent's. Never destroyed: what is on its way may arrive later than the last
  /// static object goes.
  static UnderWay& here() {
    static constinit std::atomic<UnderWay*> newest{nullptr};
    UnderWay* found = newest.load(std::memory_order_acquire);
    while (found == nullptr || found->generation_ != fork_generation()) {
      std::unique_ptr<UnderWay> fresh(new UnderWay(found));
      // What runs at the parent's exit runs at that of a child, too.
      const bool first = found == nullptr;
      if (!newest.compare_exchange_strong(found, fresh.get())) continue;
      found = fresh.release();
      if (first) std::atexit([] { here().wait(); });
    }
    return *found;
  }

  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }

  /// A place among those that are tried again. Returns whether there is one for this limit.
  bool take_place(const BoundLimit& bound) {
    const std::lock_guard lock(mutex_);
    if (tried_again_.size() >= kMostTriedAgain ||
        tried_again_.count(&bound) >= kMostTriedAgainOfOne) {
      return false;
    }
    tried_again_.insert(&bound);
    return true;
  }
  void leave_place(const BoundLimit& bound) {
    const std::lock_guard lock(mutex_);
    tried_again_.erase(tried_again_.find(&bound));
  }

 private:
  explicit UnderWay(const UnderWay* parent) : parent_(parent) {}

  void wait() {
    std::unique_lock lock(mutex_);
    none_.wait_for(lock, kMostAtExit, [&] { return count_ == 0; });
  }

  [[maybe_unused]] const UnderWay* const parent_;  // Else it would look like lost memory.
  const std::uint64_t generation_ = fork_generation();
  std::mutex mutex_;
  std::condition_variable none_;
  // Guarded by mutex_:
  std::size_t count_ = 0;
  std::unordered_multiset<const BoundLimit*> tried_again_;
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
    if (has_place_) under_way_.leave_place(bound_);
  }

  void submit() {
    under_way_.begin();
    decision_ = {.source = Source::kUnanswered};
    fault.clear();
    bool is_answered = true;
    try {
      is_answered = slot_->store()->submit_inquiry(*this);
    } catch (const std::exception&) {
      // Not answered: see give_back().
    }
    if (is_answered) end();
  }

 private:
  // Those who wait are woken once it is known to have arrived: they would ask in vain before.
  void end() {
    under_way_.end();
    std::unique_ptr<Returning> self(this);
    wake(bound_, request_);
    if (is_open() && try_again()) static_cast<void>(self.release());
  }

  // Whether the store may count it yet, for as long as to be asked again.
  bool is_open() const {
    return request_.giver == Source::kUnanswered && decision_.source == Source::kUnanswered &&
           keeper_->after(pause_) < lapses_at_;
  }

  // Returns whether it will be. Until then it keeps no store from going, and a place until it goes.
  bool try_again() {
    const auto keeper = keeper_;  // It may run before this returns.
    const std::weak_ptr<const LimitSlot> slot = std::exchange(slot_, nullptr);
    const auto when = keeper->after(pause_);
    pause_ = std::min<std::chrono::nanoseconds>(kMostPause, 2 * pause_);
    try {
      if (!has_place_) has_place_ = under_way_.take_place(bound_);
      if (!has_place_) return false;
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

  UnderWay& under_way_ = UnderWay::here();
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

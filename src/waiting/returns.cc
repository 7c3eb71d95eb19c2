#include "waiting/returns.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/fork.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kMostAtExit{1};
// The pauses before a release that the store did not answer is sent again.
constexpr std::chrono::milliseconds kFirstReclaimPause{10};
constexpr std::chrono::seconds kMostReclaimPause{1};

/// The refunds and releases that this process has in flight, and those that it sends again.
class UnderWay {
 public:
  void begin() {
    const std::lock_guard lock(mutex_);
    ++count_;
  }
  void end() {
    const std::lock_guard lock(mutex_);
    if (--count_ == 0) none_.notify_all();
  }
  void wait_at_exit() {
    std::unique_lock lock(mutex_);
    if (!exits_by_) exits_by_ = std::chrono::steady_clock::now() + kMostAtExit;
    none_.wait_until(lock, *exits_by_, [&] { return count_ == 0; });
  }

  /// A place among the releases that are retried, until it is let go of. Null if there are as many
  /// as may be.
  std::shared_ptr<void> take_place() {
    {
      const std::lock_guard lock(mutex_);
      if (retried_ == kMostReclaimed) return nullptr;
      ++retried_;
    }
    // The lock is free now: without memory for the share, the place is let go of at once.
    return {this, [this](void*) {
              const std::lock_guard lock(mutex_);
              --retried_;
            }};
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  // Guarded by mutex_:
  std::size_t count_ = 0;
  std::size_t retried_ = 0;
  std::optional<std::chrono::steady_clock::time_point> exits_by_;  // Once the process exits.
};

UnderWay& under_way() {
  static constinit PerProcess<UnderWay> of_process;
  // Registered once: what runs at the parent's exit runs at that of a child, too. (A guard of the
  // compiler could block a child of fork() for ever.) When it has run, the next return registers it
  // again: the destructor of a static object may return a permit after that.
  static constinit std::atomic<bool> is_registered{false};
  const auto at_exit = [] {
    of_process.get().wait_at_exit();
    is_registered = false;
  };
  if (!is_registered.exchange(true)) std::atexit(at_exit);
  return of_process.get();
}

/// One refund or release in flight. Shared by its batch's completion and by tasks of the timer
/// thread.
class SentReturn : public std::enable_shared_from_this<SentReturn> {
 public:
  /// `limit` keeps the request's limit and space.
  SentReturn(std::shared_ptr<Store> store, std::shared_ptr<const void> limit,
             const Request& request, std::shared_ptr<TimerQueue> timer, Returned then)
      : timer_(std::move(timer)),
        store_(std::move(store)),
        limit_(std::move(limit)),
        key_(request.key),
        request_(request),
        then_(std::move(then)) {
    request_.key = key_;
    if (request_.operation == Operation::kRelease) {
      lease_ends_ = timer_->after(lease_of(*request_.limit));
    }
  }

  void submit() {
    under_way_.begin();
    ask_on_timer(store_, request_, timer_,
                 [self = shared_from_this()](const Decision& answer) { self->settle(answer); });
  }

 private:
  void settle(const Decision& answer) {
    const bool is_unanswered = request_.operation == Operation::kRelease &&
                               request_.giver == Source::kStore && answer.source != Source::kStore;
    if (is_unanswered && timer_->after(pause_) < lease_ends_) {
      // The policy has answered already: from now on only the store is asked.
      request_.is_reclaim = true;
      ask_again();
    }
    // First: the caller may destroy the store when it is told, and the process may end when none is
    // under way.
    limit_.reset();
    store_.reset();
    under_way_.end();
    if (const Returned then = std::exchange(then_, nullptr)) then(answer);
  }

  // Meanwhile it holds only weak references, so that the store may be destroyed.
  void ask_again() {
    if (!place_) place_ = under_way_.take_place();
    if (!place_) return;
    const std::weak_ptr<const void> limit = std::exchange(limit_, nullptr);
    const std::weak_ptr<Store> store = std::exchange(store_, nullptr);
    timer_->at(timer_->after(pause_), [self = shared_from_this(), limit, store] {
      self->limit_ = limit.lock();
      self->store_ = store.lock();
      if (self->limit_ && self->store_) self->submit();
    });
    pause_ = std::min<std::chrono::nanoseconds>(kMostReclaimPause, 2 * pause_);
  }

  UnderWay& under_way_ = under_way();
  const std::shared_ptr<TimerQueue> timer_;
  // Null during a pause before the release is sent again.
  std::shared_ptr<Store> store_;
  std::shared_ptr<const void> limit_;
  const std::string key_;
  Request request_;
  Returned then_;
  TimerQueue::TimePoint lease_ends_;  // Of a permit that is released.
  std::chrono::nanoseconds pause_ = kFirstReclaimPause;
  std::shared_ptr<void> place_;  // Once the release is sent again.
};

}  // namespace

void return_later(const std::shared_ptr<const LimitBinding>& binding, const Request& request,
                  Returned then, std::shared_ptr<TimerQueue> timer) {
  if (binding->store()->answers_later()) {
    if (!timer) timer = TimerThread::shared_or_null();
    if (timer) {
      return std::make_shared<SentReturn>(binding->store(), binding, request, timer,
                                          std::move(then))
          ->submit();
    }
  }
  const Decision answer = return_and_wait(*binding->store(), request);
  if (then) then(answer);
}

Decision return_and_wait(Store& store, const Request& request) {
  try {
    return store.decide_one(request);
  } catch (const StoreError&) {
    return {.source = Source::kUnavailable};  // The refund or release is lost.
  }
}

void reclaim(const std::shared_ptr<Store>& store, const std::shared_ptr<const BoundLimit>& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerQueue> timer) {
  Request request = bound->request(key);
  request.operation = Operation::kRelease;
  request.permit = permit;
  request.is_reclaim = true;
  if (!timer) timer = TimerThread::shared_or_null();
  if (timer) std::make_shared<SentReturn>(store, bound, request, timer, nullptr)->submit();
}

}  // namespace sluice

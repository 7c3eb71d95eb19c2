#include "waiting/returns.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "waiting/fork.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kMostAtExit{1};
// Until what the store did not answer is asked again.
constexpr std::chrono::milliseconds kFirstReclaimPause{10};
constexpr std::chrono::seconds kMostReclaimPause{1};

/// What a process has under way, and which limits have permits that are asked for again.
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
    none_.wait_for(lock, kMostAtExit, [&] { return count_ == 0; });
  }

  /// False where there is no place for another one of this limit.
  bool take_place(const BoundLimit& bound) {
    const std::lock_guard lock(mutex_);
    if (reclaimed_.size() >= kMostReclaimed || reclaimed_.count(&bound) >= kMostReclaimedOfOne) {
      return false;
    }
    reclaimed_.insert(&bound);
    return true;
  }
  void leave_place(const BoundLimit& bound) {
    const std::lock_guard lock(mutex_);
    reclaimed_.erase(reclaimed_.find(&bound));
  }

 private:
  std::mutex mutex_;
  std::condition_variable none_;
  // Guarded by mutex_:
  std::size_t count_ = 0;
  std::unordered_multiset<const BoundLimit*> reclaimed_;
};

UnderWay& under_way() {
  static constinit PerProcess<UnderWay> of_process;
  // Registered once: what runs at the parent's exit runs at that of a child, too.
  [[maybe_unused]] static const int registered =
      std::atexit([] { of_process.get().wait_at_exit(); });
  return of_process.get();
}

/// One under way. Shared by the batch that the store has and by tasks of the timer thread, on which
/// the binding, and the store with it, is let go of: a store cannot be destroyed on its own thread.
class Return : public std::enable_shared_from_this<Return> {
 public:
  Return(std::shared_ptr<const LimitBinding> binding, const BoundLimit& bound,
         const Request& request, std::shared_ptr<TimerThread> timer, std::function<void()> then)
      : timer_(std::move(timer)),
        binding_(std::move(binding)),
        bound_(bound),
        key_(request.key),
        request_(request),
        then_(std::move(then)) {
    request_.key = key_;
    if (is_reclaim()) lease_ends_ = timer_->after(lease_of(bound));
  }
  ~Return() {
    if (has_place_) under_way_.leave_place(bound_);
  }
  Return(const Return&) = delete;
  Return& operator=(const Return&) = delete;

  void submit() {
    under_way_.begin();
    binding_->ask(
        {&request_, 1}, timer_,
        [self = shared_from_this()](std::span<const Decision> decisions, const std::string&) {
          self->settle(decisions[0].source != Source::kUnavailable);
        });
  }

 private:
  bool is_reclaim() const { return request_.giver == Source::kUnavailable; }

  void settle(bool is_answered) {
    under_way_.end();
    if (then_) then_();
    if (!is_answered && is_reclaim() && timer_->after(pause_) < lease_ends_) ask_again();
  }

  // Until then it keeps no store from being destroyed.
  void ask_again() {
    if (!has_place_) has_place_ = under_way_.take_place(bound_);
    if (!has_place_) return;
    const std::weak_ptr<const LimitBinding> binding = std::exchange(binding_, nullptr);
    timer_->at(timer_->after(pause_), [self = shared_from_this(), binding] {
      self->binding_ = binding.lock();
      if (self->binding_) self->submit();
    });
    pause_ = std::min<std::chrono::nanoseconds>(kMostReclaimPause, 2 * pause_);
  }

  UnderWay& under_way_ = under_way();
  const std::shared_ptr<TimerThread> timer_;
  std::shared_ptr<const LimitBinding> binding_;  // Null until it is asked again.
  const BoundLimit& bound_;
  const std::string key_;
  Request request_;
  const std::function<void()> then_;
  TimerThread::TimePoint lease_ends_;
  std::chrono::nanoseconds pause_ = kFirstReclaimPause;
  bool has_place_ = false;
};

}  // namespace

void give_back(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
               const Request& request, std::function<void()> then,
               std::shared_ptr<TimerThread> timer) {
  if (binding->store()->answers_later()) {
    if (!timer) timer = TimerThread::shared();
    std::make_shared<Return>(binding, bound, request, std::move(timer), std::move(then))->submit();
  } else {
    give_back_now(*binding, request);
    if (then) then();
  }
}

void give_back_now(const LimitBinding& binding, const Request& request) {
  try {
    binding.ask(request);
  } catch (const StoreError&) {
    // It is lost.
  }
}

void reclaim(const std::shared_ptr<const LimitBinding>& binding, const BoundLimit& bound,
             std::string_view key, PermitId permit, std::shared_ptr<TimerThread> timer) {
  Request request = bound.request(key);
  request.operation = Operation::kRelease;
  request.permit = permit;
  request.giver = Source::kUnavailable;
  give_back(binding, bound, request, nullptr, std::move(timer));
}

}  // namespace sluice

#include "waiting/lease_keeper.h"

#include <algorithm>
#include <cassert>
#include <utility>
#include <vector>

#include "waiting/returns.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

// Between two renewals of a permit, however short its lease.
constexpr std::chrono::milliseconds kLeastPause{1};
// Until a renewal that the store did not answer is tried again, at most.
constexpr std::chrono::seconds kMostPause{1};

nanoseconds until_renewal(nanoseconds lease) {
  return std::max<nanoseconds>(kLeastPause, lease / 3);
}

nanoseconds until_next_try(nanoseconds lease) {
  return std::clamp<nanoseconds>(lease / 12, kLeastPause, kMostPause);
}

}  // namespace

LeaseKeeper::LeaseKeeper(std::shared_ptr<const LimitBinding> binding)
    : binding_(std::move(binding)),
      timer_(binding_->queues()->timer()),
      is_shared_(binding_->store()->answers_later()) {}

// The timer of the last permit would stay for a third of its lease. In a child of fork(), a thread
// that does not exist there may hold the lock of the parent's timer.
LeaseKeeper::~LeaseKeeper() {
  if (generation_ == fork_generation()) timer_->cancel(armed_);
}

std::shared_ptr<Lease> LeaseKeeper::hold(std::string key, const AcquireOutcome& granted) {
  assert(granted.is_granted());
  auto lease = std::make_shared<Lease>(shared_from_this(), std::move(key), granted);
  const std::lock_guard lock(mutex_);
  schedule(*lease, TimerQueue::later(granted.asked_at,
                                     until_renewal(lease_of(granted.bound().limit.definition()))));
  return lease;
}

// Lets renew_due() run by then.
void LeaseKeeper::arm(TimePoint due) {
  if (armed_.when <= due) return;
  timer_->cancel(armed_);
  armed_ = timer_->at(due, [weak = weak_from_this()] {
    if (const auto keeper = weak.lock()) keeper->renew_due();
  });
}

void LeaseKeeper::schedule(Lease& lease, TimePoint due) {
  arm(due);
  lease.due_ = due;
  // All leases are of one length until the limit changes, so the newest is usually due last.
  schedule_.insert(schedule_.end(), lease);
}

void LeaseKeeper::unschedule(Lease& lease) {
  schedule_.erase(schedule_.iterator_to(lease));
}

// On the timer thread: renews the leases that are due, and gives up those that have expired.
void LeaseKeeper::renew_due() {
  std::vector<std::shared_ptr<Lease>> due;
  std::vector<std::shared_ptr<Lease>> late;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = timer_->now();
    while (!schedule_.empty() && schedule_.begin()->due_ <= now) {
      Lease& lease = *schedule_.begin();
      unschedule(lease);
      const TimePoint expires_at = lease.expires_at_.load(std::memory_order_relaxed);
      if (expires_at <= now) {
        lease.state_.store(Lease::State::kExpired, std::memory_order_release);
        late.push_back(lease.shared_from_this());
      } else {
        lease.is_renewing_ = true;
        schedule(lease, expires_at);
        due.push_back(lease.shared_from_this());
      }
    }
    // Another thread may have replaced the timer when this task had begun already.
    if (armed_.when <= now) armed_.when = TimerQueue::kEndOfTime;
    if (!schedule_.empty()) arm(schedule_.begin()->due_);
  }
  for (const auto& lease : due) renew(lease);
  // Last: however long a callback takes, the renewals have been asked for.
  for (const auto& lease : late) lease->run_callback();
}

void LeaseKeeper::renew(const std::shared_ptr<Lease>& lease) {
  ask_on_timer(binding_->store(), lease->request(Operation::kRenew), timer_,
               [self = shared_from_this(), lease, sent = timer_->now()](const Decision& answer) {
                 self->settle(*lease, sent, answer);
               });
}

// On the timer thread: handles the answer to a renewal. If the giver did not answer, the permit is
// held until its current lease ends. If the permit expired before the answer arrived, it has no
// holder any more: if the store renewed it nevertheless, it is released.
void LeaseKeeper::settle(Lease& lease, TimePoint sent, const Decision& answer) {
  const bool is_answered = answer.source == lease.giver_;
  // A full store granted it without recording it (full=allow): such a permit needs no renewal.
  const bool is_renewed = lease.giver_ == Source::kFull || (is_answered && answer.allowed);
  Lease::State state;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = timer_->now();
    lease.is_renewing_ = false;
    state = lease.state_.load(std::memory_order_relaxed);
    if (state == Lease::State::kHeld) {
      unschedule(lease);
      const nanoseconds length = lease_of(lease.bound_.limit.definition());
      const TimePoint expires_at = lease.expires_at_.load(std::memory_order_relaxed);
      if (is_renewed) {
        lease.expires_at_.store(TimerQueue::later(sent, length), std::memory_order_relaxed);
        schedule(lease, TimerQueue::later(sent, until_renewal(length)));
      } else if (is_answered || now >= expires_at) {
        state = Lease::State::kExpired;
        lease.state_.store(state, std::memory_order_release);
      } else {
        schedule(lease, std::min(expires_at, TimerQueue::later(now, until_next_try(length))));
      }
    }
  }
  if (state == Lease::State::kExpired) is_renewed ? release(lease) : lease.run_callback();
}

void LeaseKeeper::release(const Lease& lease) {
  const Request request = lease.request(Operation::kRelease);
  if (!is_shared_) {  // The store answers at once: nothing needs to outlive this call.
    return_and_wait(*binding_->store(), request);
    return binding_->queues()->released(lease.key_);
  }
  const auto wake_next = [queues = binding_->queues(), key = lease.key_](const Decision&) {
    queues->released(key);
  };
  return_later(binding_, request, wake_next, timer_);
}

Lease::Lease(std::shared_ptr<LeaseKeeper> keeper, std::string key, const AcquireOutcome& granted)
    : keeper_(std::move(keeper)),
      key_(std::move(key)),
      id_(granted.permit),
      giver_(granted.decision.source),
      was_last_(granted.decision.remaining == 0 && giver_ == Source::kStore),
      bound_(granted.bound()),
      expires_at_(
          TimerQueue::later(granted.asked_at, lease_of(granted.bound().limit.definition()))) {}

Request Lease::request(Operation operation) const {
  Request request = bound_.request(key_);
  request.operation = operation;
  request.permit = id_;
  request.giver = giver_;
  return request;
}

bool Lease::held() const {
  return state_.load(std::memory_order_acquire) == State::kHeld &&
         keeper_->now() < expires_at_.load(std::memory_order_relaxed);
}

void Lease::on_expiry(std::function<void()> callback) {
  {
    const std::lock_guard lock(keeper_->mutex_);
    if (state_.load(std::memory_order_relaxed) == State::kReleased) return;
    has_callback_ = true;
  }
  {
    const std::lock_guard lock(callback_mutex_);
    callback_.swap(callback);  // The former one is destroyed without the lock.
  }
  // It may have expired, or been released, before the callback was there.
  if (state_.load(std::memory_order_acquire) != State::kHeld) run_callback();
}

// Drops the callback of a permit that was released: call_off() may have come before the callback.
void Lease::run_callback() {
  const std::lock_guard lock(callback_mutex_);
  const auto callback = std::exchange(callback_, nullptr);
  if (callback && state_.load(std::memory_order_acquire) == State::kExpired) callback();
}

// No callback runs after this call, unless the callback itself calls this.
void Lease::call_off() {
  std::function<void()> called_off;  // Destroyed without the lock, with what it owns.
  const std::lock_guard lock(callback_mutex_);
  called_off.swap(callback_);
}

// Sets the state to kReleased. Returns whether the store may count the permit: it was held, or it
// has expired and a renewal is in flight.
bool Lease::mark_released() {
  bool may_count = false;
  bool has_callback = false;
  {
    const std::lock_guard lock(keeper_->mutex_);
    const State state = state_.load(std::memory_order_relaxed);
    may_count = state == State::kHeld || (state == State::kExpired && is_renewing_);
    state_.store(State::kReleased, std::memory_order_release);
    if (state == State::kHeld) keeper_->unschedule(*this);
    has_callback = has_callback_;
  }
  if (has_callback) call_off();
  return may_count;
}

void Lease::release() {
  if (keeper_->generation_ != fork_generation()) return;  // It is the parent's.
  const bool was_held = state_.load(std::memory_order_relaxed) == State::kHeld;
  if (!mark_released()) return;
  // One that had expired may be another process's already.
  if (was_held && was_last_ && keeper_->is_shared()) {
    keeper_->binding_->queues()->fairness().released(key_, keeper_->now());
  }
  keeper_->release(*this);
}

void Lease::ignore() {
  if (keeper_->generation_ == fork_generation()) mark_released();
}

}  // namespace sluice

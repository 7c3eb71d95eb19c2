#include "limiter/permit_keeper.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "limiter/give_back.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;

// Renewals of so many travel together.
constexpr std::size_t kMostTogether = 128;
// Between two renewals of a permit, however short its lease.
constexpr std::chrono::milliseconds kLeastPause{1};
// Until a renewal that the store did not answer is tried again, at most.
constexpr std::chrono::seconds kMostPause{1};

// From there on a lease counts from a time that is kCheapStep too early at most.
constexpr std::chrono::seconds kLongLease{1};

nanoseconds until_renewal(nanoseconds lease) {
  return std::max<nanoseconds>(kLeastPause, lease / 3);
}

nanoseconds until_next_try(nanoseconds lease) {
  return std::clamp<nanoseconds>(lease / 12, kLeastPause, kMostPause);
}

}  // namespace

/// The renewal of some permits, under way. Owned by the store that is asked, and then by an entry
/// in the agenda.
class PermitKeeper::Renewal final : public Inquiry, public std::enable_shared_from_this<Renewal> {
 public:
  Renewal(std::shared_ptr<PermitKeeper> keeper, std::vector<Share> permits)
      : permits_(std::move(permits)),
        keeper_(std::move(keeper)),
        sent_(keeper_->now()),
        decisions_(permits_.size(), Decision{.source = Source::kUnanswered}) {
    for (const auto& permit : permits_) requests_.push_back(permit->request(Operation::kRenew));
    requests = requests_;
    decisions = decisions_;
  }

  void submit() {
    self_ = shared_from_this();
    try {
      if (!keeper_->slot_.store()->submit_inquiry(*this)) return;
    } catch (const std::exception&) {
      // Those that the store did not answer say so.
    }
    const auto self = std::move(self_);
    keeper_->settle(*this);
  }

  const std::vector<Share>& permits() const { return permits_; }
  const Decision& answer(std::size_t i) const { return decisions_[i]; }
  TimePoint sent() const { return sent_; }

 private:
  void answered() noexcept override {
    const auto keeper = keeper_->keeper_;
    keeper->post([self = std::move(self_)] { self->keeper_->settle(*self); });
  }

  const std::vector<Share> permits_;
  const std::shared_ptr<PermitKeeper> keeper_;
  const TimePoint sent_;
  std::vector<Request> requests_;
  std::vector<Decision> decisions_;
  std::shared_ptr<Renewal> self_;
};

PermitKeeper::PermitKeeper(std::shared_ptr<Store> store, Limit limit,
                           std::shared_ptr<Timekeeper> keeper)
    : slot_(std::move(store), std::move(limit), LimitSlot::Kind::kLent),
      is_shared_(slot_.store()->answers_later()),
      keeper_(std::move(keeper)) {}

void PermitKeeper::prepare() {
  std::call_once(prepared_, [this] {
    if (!keeper_) keeper_ = Timekeeper::shared();
  });
}

PermitKeeper::TimePoint PermitKeeper::now() const {
  return keeper_->now();
}

PermitKeeper::TimePoint PermitKeeper::asked_at(const BoundLimit& bound) const {
  return lease_of(bound) >= kLongLease ? keeper_->now_cheaply() : keeper_->now();
}

void PermitKeeper::give_back(const BoundLimit& bound, const Request& request) noexcept {
  if (is_shared_) {
    sluice::give_back(shared_slot(), bound, request);
  } else {
    give_back_now(slot_, bound, request);
  }
}

HeldPermit* PermitKeeper::hold(std::string_view key, const Outcome& granted) {
  try {
    Share permit(HeldPermit::make(*this, key, granted));
    const TimePoint due = Timekeeper::later(granted.asked, until_renewal(lease_of(*granted.bound)));
    const std::lock_guard lock(mutex_);
    arm(due);  // It may throw: what stands in the list is renewed for ever.
    due_.enter(*permit, due);
    ++permits_;
    if (is_alone_) self_ = shared_from_this();
    return permit.release();
  } catch (...) {
    Request back = granted.bound->request(key);
    back.operation = Operation::kRelease;
    back.permit = granted.permit;
    back.giver = granted.decision.source;
    give_back(*granted.bound, back);
    throw;
  }
}

// A child of fork() may have been made while a thread that it does not have held the lock.
void PermitKeeper::outlive_limiter() {
  std::unique_lock lock(mutex_, std::defer_lock);
  if (generation_ == fork_generation()) lock.lock();
  is_alone_ = true;
  if (permits_ > 0) self_ = shared_from_this();
}

void PermitKeeper::part() {
  std::shared_ptr<PermitKeeper> self;  // Goes once the lock is let go.
  const std::lock_guard lock(mutex_);
  if (--permits_ == 0) self = std::move(self_);
}

// Unless it is armed for earlier.
void PermitKeeper::arm(TimePoint when) {
  if (when == Timekeeper::kEndOfTime || (is_armed_ && timer_.when <= when)) return;
  const Timekeeper::Timer next = keeper_->at(when, [weak = weak_from_this()] {
    if (const auto keeper = weak.lock()) keeper->look_after();
  });
  if (is_armed_) keeper_->cancel(timer_);
  timer_ = next;
  is_armed_ = true;
}

// Out of its list. The result is a share of it.
PermitKeeper::Share PermitKeeper::take(HeldPermit& permit) {
  permit.shares_.fetch_add(1, std::memory_order_relaxed);
  permit.strike_out();
  return Share(&permit);
}

// On the timekeeper's thread: renews what is due, and lets lapse what has not been for too long.
void PermitKeeper::look_after() {
  std::vector<Share> due;
  std::vector<Share> late;
  {
    const std::lock_guard lock(mutex_);
    is_armed_ = false;
    const TimePoint now = keeper_->now();
    while (due_.soonest() <= now) {
      HeldPermit& permit = *due_.first;
      const TimePoint lapses_at = permit.lapses_at_.load(std::memory_order_relaxed);
      const bool is_late = lapses_at <= now;
      (is_late ? late : due).push_back(take(permit));
      permit.is_renewing_ = !is_late;
      if (!is_late) renewing_.enter(permit, lapses_at);
    }
    while (renewing_.soonest() <= now) late.push_back(take(*renewing_.first));
    arm(std::min(due_.soonest(), renewing_.soonest()));
  }
  for (const Share& permit : late) lapse(*permit);
  for (std::size_t begin = 0; begin < due.size(); begin += kMostTogether) {
    const auto end = std::min(due.size(), begin + kMostTogether);
    std::vector<Share> some(std::move_iterator(due.begin() + static_cast<std::ptrdiff_t>(begin)),
                            std::move_iterator(due.begin() + static_cast<std::ptrdiff_t>(end)));
    std::make_shared<Renewal>(shared_from_this(), std::move(some))->submit();
  }
}

// On the timekeeper's thread. A permit whose giver did not answer counts on, as nothing is known of
// it, until the lease that was granted last is over. One that lapsed before the answer came is
// nobody's any more: where it was renewed all the same, it is given back.
void PermitKeeper::settle(const Renewal& renewal) {
  std::vector<HeldPermit*> lapsed;
  std::vector<HeldPermit*> too_late;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = keeper_->now();
    for (std::size_t i = 0; i < renewal.permits().size(); ++i) {
      HeldPermit& permit = *renewal.permits()[i];
      permit.is_renewing_ = false;
      const Decision& answer = renewal.answer(i);
      const bool is_answered = answer.source == permit.giver_;
      // A store that was full gave it and keeps nothing of it: nobody can take it away.
      const bool is_renewed = permit.giver_ == Source::kFull || (is_answered && answer.allowed);
      const HeldPermit::State state = permit.state_.load(std::memory_order_relaxed);
      if (state != HeldPermit::State::kHeld) {
        if (state == HeldPermit::State::kLapsed && is_renewed) too_late.push_back(&permit);
        continue;
      }
      permit.strike_out();
      const nanoseconds lease = lease_of(*permit.bound_);
      const TimePoint lapses_at = permit.lapses_at_.load(std::memory_order_relaxed);
      if (is_renewed) {
        permit.lapses_at_.store(Timekeeper::later(renewal.sent(), lease),
                                std::memory_order_relaxed);
        due_.enter(permit, Timekeeper::later(renewal.sent(), until_renewal(lease)));
      } else if (is_answered || now >= lapses_at) {
        lapsed.push_back(&permit);
      } else {
        due_.enter(permit, std::min(lapses_at, Timekeeper::later(now, until_next_try(lease))));
      }
    }
    arm(due_.soonest());
  }
  for (HeldPermit* permit : lapsed) lapse(*permit);
  for (HeldPermit* permit : too_late) {
    give_back(*permit->bound_, permit->request(Operation::kRelease));
  }
}

void PermitKeeper::lapse(HeldPermit& permit) {
  std::shared_ptr<LapseCallback> told;
  {
    const std::lock_guard lock(mutex_);
    if (permit.state_.load(std::memory_order_relaxed) != HeldPermit::State::kHeld) return;
    permit.state_.store(HeldPermit::State::kLapsed, std::memory_order_release);
    told = permit.callback_;
  }
  if (told) told->run();
}

}  // namespace sluice

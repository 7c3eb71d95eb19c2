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
      if (!keeper_->slot_.store()->submit(*this)) return;
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

HeldPermit* PermitKeeper::hold(std::string_view key, PermitId id, const Outcome& granted) {
  auto* const permit = HeldPermit::make(shared_from_this(), key, id, granted);
  const std::lock_guard lock(mutex_);
  permit->due_ = Timekeeper::later(granted.asked, until_renewal(lease_of(*permit->bound_)));
  enter(*permit);
  return permit;
}

void PermitKeeper::enter(HeldPermit& permit) {
  HeldPermit* after = last_;
  while (after != nullptr && after->due_ > permit.due_) after = after->previous_;
  HeldPermit* const before = after == nullptr ? first_ : after->next_;
  permit.previous_ = after;
  permit.next_ = before;
  (after == nullptr ? first_ : after->next_) = &permit;
  (before == nullptr ? last_ : before->previous_) = &permit;
  permit.is_listed_ = true;
  if (!is_armed_ || permit.due_ < timer_.when) arm(permit.due_);
}

void PermitKeeper::strike_out(HeldPermit& permit) {
  if (!permit.is_listed_) return;
  (permit.previous_ == nullptr ? first_ : permit.previous_->next_) = permit.next_;
  (permit.next_ == nullptr ? last_ : permit.next_->previous_) = permit.previous_;
  permit.is_listed_ = false;
}

void PermitKeeper::arm(TimePoint when) {
  if (is_armed_) keeper_->cancel(timer_);
  is_armed_ = when < Timekeeper::kEndOfTime;
  if (!is_armed_) return;
  timer_ = keeper_->at(when, [weak = weak_from_this()] {
    if (const auto keeper = weak.lock()) keeper->look_after();
  });
}

// On the timekeeper's thread: renews what is due, and lets lapse what has not been for too long.
void PermitKeeper::look_after() {
  std::vector<Share> due;
  std::vector<Share> late;
  {
    const std::lock_guard lock(mutex_);
    is_armed_ = false;
    const TimePoint now = keeper_->now();
    while (first_ != nullptr && first_->due_ <= now) {
      HeldPermit& permit = *first_;

      permit.shares_.fetch_add(1, std::memory_order_relaxed);
      Share share(&permit);
      strike_out(permit);
      (permit.lapses_at_.load(std::memory_order_relaxed) <= now ? late : due)
          .push_back(std::move(share));
    }
    if (first_ != nullptr) arm(first_->due_);
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
// it, until the lease that was granted last is over.
void PermitKeeper::settle(const Renewal& renewal) {
  std::vector<HeldPermit*> lapsed;
  {
    const std::lock_guard lock(mutex_);
    const TimePoint now = keeper_->now();
    for (std::size_t i = 0; i < renewal.permits().size(); ++i) {
      HeldPermit& permit = *renewal.permits()[i];
      if (permit.state_.load(std::memory_order_relaxed) != HeldPermit::State::kHeld) continue;
      const Decision& answer = renewal.answer(i);
      const nanoseconds lease = lease_of(*permit.bound_);
      const bool is_answered = answer.source == permit.giver_;
      // A store that was full gave it and keeps nothing of it: nobody can take it away.
      const bool is_unrecorded = permit.giver_ == Source::kFull;
      if (is_unrecorded || (is_answered && answer.allowed)) {
        permit.lapses_at_.store(Timekeeper::later(renewal.sent(), lease),
                                std::memory_order_relaxed);
        permit.due_ = Timekeeper::later(renewal.sent(), until_renewal(lease));
      } else {
        const TimePoint lapses_at = permit.lapses_at_.load(std::memory_order_relaxed);
        permit.due_ = std::min(lapses_at, Timekeeper::later(now, until_next_try(lease)));
        if (is_answered || now >= lapses_at) {
          lapsed.push_back(&permit);
          continue;
        }
      }
      enter(permit);
    }
  }
  for (HeldPermit* permit : lapsed) lapse(*permit);
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

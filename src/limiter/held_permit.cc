#include "limiter/held_permit.h"

#include <cstring>
#include <utility>
#include <variant>

#include "algorithms/limit_definition.h"
#include "limiter/permit_keeper.h"

namespace sluice {

std::chrono::nanoseconds lease_of(const BoundLimit& bound) {
  const auto& part = std::get<Part<Concurrency>>(bound.limit.definition().parts[0]);
  return std::chrono::nanoseconds(part.params.lease_ns);
}

void LapseCallback::set(std::function<void()> callback) {
  const std::lock_guard lock(mutex_);
  if (!is_off_) callback_ = std::move(callback);
}

void LapseCallback::call_off() {
  const std::lock_guard lock(mutex_);
  is_off_ = true;
  callback_ = nullptr;
}

void LapseCallback::run() {
  const std::lock_guard lock(mutex_);
  if (const auto callback = std::exchange(callback_, nullptr)) callback();
}

HeldPermit::HeldPermit(PermitKeeper& keeper, std::string_view key, const Outcome& granted)
    : keeper_(keeper),
      key_bytes_(key.size()),
      id_(granted.permit),
      giver_(granted.decision.source),
      was_last_(granted.decision.remaining == 0 && giver_ == Source::kStore),
      bound_(granted.bound),
      lapses_at_(Timekeeper::later(granted.asked, lease_of(*granted.bound))) {
  std::memcpy(static_cast<void*>(this + 1), key.data(), key.size());
}

void HeldPermit::List::enter(HeldPermit& permit, TimePoint due) {
  HeldPermit* after = last;
  while (after != nullptr && after->due_ > due) after = after->previous_;
  HeldPermit* const before = after == nullptr ? first : after->next_;
  permit.due_ = due;
  permit.previous_ = after;
  permit.next_ = before;
  (after == nullptr ? first : after->next_) = &permit;
  (before == nullptr ? last : before->previous_) = &permit;
  permit.list_ = this;
}

void HeldPermit::strike_out() {
  List* const list = std::exchange(list_, nullptr);
  if (list == nullptr) return;
  (previous_ == nullptr ? list->first : previous_->next_) = next_;
  (next_ == nullptr ? list->last : next_->previous_) = previous_;
}

Request HeldPermit::request(Operation operation) const {
  Request request = bound_->request(key());
  request.operation = operation;
  request.permit = id_;
  request.giver = giver_;
  return request;
}

void HeldPermit::drop() {
  // Nobody but the last one can hand out another.
  if (shares_.load(std::memory_order_acquire) == 1 ||
      shares_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    delete this;
  }
}

bool HeldPermit::held() const {
  return state_.load(std::memory_order_acquire) == State::kHeld &&
         keeper_.now() < lapses_at_.load(std::memory_order_relaxed);
}

void HeldPermit::on_lapse(std::function<void()> callback) {
  std::shared_ptr<LapseCallback> told;
  {
    const std::lock_guard lock(keeper_.mutex_);
    if (state_.load(std::memory_order_relaxed) == State::kLetGo) return;
    if (!callback_) callback_ = std::make_shared<LapseCallback>();
    told = callback_;
  }
  told->set(std::move(callback));
  // It may have lapsed before the callback was there.
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::kLapsed) told->run();
  if (state == State::kLetGo) told->call_off();
}

HeldPermit::State HeldPermit::let_go() {
  std::shared_ptr<LapseCallback> told;
  State former = State::kLetGo;
  {
    const std::lock_guard lock(keeper_.mutex_);
    former = state_.load(std::memory_order_relaxed);
    if (former == State::kLapsed && !is_renewing_) former = State::kLetGo;
    state_.store(State::kLetGo, std::memory_order_release);
    strike_out();
    told = std::move(callback_);
  }
  if (told) told->call_off();
  return former;
}

void HeldPermit::give_back(State former) {
  if (former == State::kLetGo) return;
  if (former == State::kHeld && was_last_ && keeper_.is_shared()) {
    bound_->space->companion<WaitingLines>().turns().released(key(), keeper_.now());
  }
  keeper_.give_back(*bound_, request(Operation::kRelease));
}

void HeldPermit::release() {
  if (keeper_.generation_ != fork_generation()) return;  // It is the parent's, who releases it.
  give_back(let_go());
}

void HeldPermit::ignore() {
  if (keeper_.generation_ == fork_generation()) let_go();
}

// In a child of fork() its keeper stays for ever.
void HeldPermit::end() {
  if (keeper_.generation_ == fork_generation()) {
    give_back(let_go());
    keeper_.part();
  }
  drop();
}

}  // namespace sluice

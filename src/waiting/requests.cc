#include "waiting/requests.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <span>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/fork.h"
#include "waiting/returns.h"
#include "waiting/waiting_callers.h"

namespace sluice {
namespace {

/// Random numbers of the operating system, many of which are fetched at once, since a call of it
/// takes as long as a permit. Not thread-safe.
class RandomNumbers {
 public:
  std::uint64_t next() {
    // A child of fork() does not continue its parent's numbers.
    if (left_ == 0 || generation_ != fork_generation()) fetch();
    return std::exchange(numbers_[--left_], 0);
  }

 private:
  void fetch() {
    generation_ = fork_generation();
    if (::getentropy(numbers_.data(), sizeof numbers_) != 0) std::abort();
    left_ = numbers_.size();
  }

  std::array<std::uint64_t, 32> numbers_{};  // The most that getentropy() gives at once.
  std::size_t left_ = 0;
  std::uint64_t generation_ = 0;
};

// Whether waiting can help a caller that this limit denies. Not with buckets alone: they reserve
// future units at once, so their denial is final.
bool has_later(const LimitDefinition& limit) {
  return !std::ranges::all_of(limit.parts, is_bucket);
}

// Whether the wait for the part that denies would exceed the timeout: that stays so, whatever other
// parts the limit has. (Which part of a claim binds is not known if there are several claims.)
bool exceeds_timeout(const AcquireRequest& request, const AcquireOutcome& denied) {
  if (request.claims.size() > 1 || request.until == TimerQueue::kEndOfTime) return false;
  const auto& parts = denied.bound().limit.definition().parts;
  return is_denial_final(parts[denied.decision.binding]);
}

using Requests = boost::container::small_vector<Request, 1>;

// Room for the decisions that say for how long the units of each claim count: its own, if it is one
// of several, and those of its limit's parts.
using Parts = boost::container::small_vector<std::vector<Decision>, 1>;

// What to ask the store now; refers to the request, and to `parts`. Sets the outcome as far as it
// is known before the answer.
Requests to_ask(const AcquireRequest& request, TimerQueue::TimePoint now, AcquireOutcome& outcome,
                Parts& parts) {
  const std::size_t own = request.claims.size() > 1 ? 1 : 0;
  const auto left = request.until == TimerQueue::kEndOfTime ? std::chrono::nanoseconds::max()
                                                            : request.until - now;
  outcome = {.permit = request.permit, .asked_at = now, .wakings = WaitingCallers::wakings()};
  Requests requests;
  for (const AcquireClaim& claim : request.claims) {
    const BoundLimit& bound = claim.binding->bound();
    outcome.claims.push_back({.bound = &bound});
    Request& asked = requests.emplace_back(bound.request(claim.key));
    asked.cost = claim.cost;
    asked.permit = request.permit;
    asked.most_denial_age_ns = request.most_denial_age.count();
    if (request.is_for_permit()) continue;
    asked.patience_ns = std::max<std::int64_t>(0, left.count());
    asked.parts = parts.emplace_back(own + CountedFor::parts_of(*asked.limit));
    asked.parts_if_allowed = true;
  }
  return requests;
}

// After the answer to these requests.
void note_claims(AcquireOutcome& outcome, std::span<const Request> requests) {
  if (!outcome.is_granted()) return;
  const Source giver = outcome.decision.source;
  const std::size_t own = requests.size() > 1 ? 1 : 0;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::span<const Decision> parts = requests[i].parts;
    const Decision& decision = own != 0 ? parts[0] : outcome.decision;
    // A full store that admits has recorded those claims that found room.
    outcome.claims[i].giver = giver == Source::kFull ? decision.source : giver;
    outcome.claims[i].counted_for = {decision, parts.subspan(own)};
  }
}

// Called with each outcome.
void reclaim_unanswered(AcquireRequest& request, AcquireOutcome& outcome,
                        std::shared_ptr<TimerQueue> timer) {
  if (!request.is_for_permit() || !may_be_executed(outcome.decision)) return;
  outcome.decision.taken = 0;  // The mark is for this function, not for the waiting caller.
  const AcquireClaim& claim = request.claim();
  reclaim(claim.binding->store(), {claim.binding, &outcome.bound()}, claim.key, request.permit,
          std::move(timer));
  request.permit = new_permit_id();  // The outcome keeps the former id.
}

}  // namespace

PermitId new_permit_id() {
  thread_local RandomNumbers numbers;
  for (;;) {
    if (const PermitId id = numbers.next()) return id;
  }
}

AcquireOutcome ask_now(AcquireRequest& request, TimerQueue::TimePoint now) {
  AcquireOutcome outcome;
  Parts parts;
  const Requests requests = to_ask(request, now, outcome, parts);
  try {
    const LimitBinding& binding = *request.claim().binding;
    const std::span<const Request> asked(requests.data(), requests.size());
    // decide() fills in the decision also where it throws: it says whether the request was sent.
    if (asked.size() == 1) {
      binding.store()->decide(asked, kStoreTime, {&outcome.decision, 1});
    } else {
      outcome.decision = binding.store()->decide_all(asked, kStoreTime);
    }
  } catch (const std::exception&) {
    outcome.error = std::current_exception();
  }
  note_claims(outcome, {requests.data(), requests.size()});
  reclaim_unanswered(request, outcome, nullptr);
  return outcome;
}

void ask_async(const AcquireRequest& request, TimerQueue::TimePoint now,
               std::function<void(const AcquireOutcome&)> then) {
  AcquireOutcome outcome;
  Parts parts;
  const Requests requests = to_ask(request, now, outcome, parts);
  const auto mode = requests.size() == 1 ? Batch::Mode::kEach : Batch::Mode::kTogether;
  // A share of its own: `then` may let go of the store before submit() returns.
  const std::shared_ptr<Store> store = request.claim().binding->store();
  submit_requests(*store, {}, {requests.data(), requests.size()}, mode,
                  [outcome = std::move(outcome), then = std::move(then)](
                      const Batch* batch, std::exception_ptr error) mutable {
                    outcome.error = std::move(error);
                    if (batch != nullptr) {
                      outcome.decision = batch->decisions()[0];
                      note_claims(outcome, batch->requests());
                    }
                    then(outcome);
                  });
}

void ask_later(AcquireRequest& request, const std::shared_ptr<TimerQueue>& timer,
               std::function<void(const AcquireOutcome&)> then) {
  ask_async(request, timer->now(),
            [&request, timer, then = std::move(then)](const AcquireOutcome& answer) mutable {
              timer->post([&request, timer, then = std::move(then), outcome = answer]() mutable {
                reclaim_unanswered(request, outcome, timer);
                then(outcome);
              });
            });
}

Taken taken(AcquireClaim claim, const AcquireOutcome& granted, std::size_t i) {
  return {.claim = std::move(claim),
          .granted = granted.claims[i],
          .permit = granted.permit,
          .asked_at = granted.asked_at,
          .wakings = granted.wakings};
}

const BoundLimit& Taken::settled_by() const {
  const BoundLimit& present = claim.binding->bound();
  return present.space == granted.bound->space ? *granted.bound : present;
}

bool can_be_admitted(const AcquireRequest& request) {
  return std::ranges::all_of(request.claims, [](const AcquireClaim& claim) {
    const auto admits = [&](const AnyPart& part) {
      return borrows(part) || claim.cost <= numbers_of(part).quota;
    };
    return std::ranges::all_of(claim.binding->bound().limit.definition().parts, admits);
  });
}

bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerQueue::TimePoint now) {
  const auto retry_after = denied.decision.retry_after;
  if (denied.error != nullptr || denied.decision.allowed || retry_after == kNever) return false;
  // A permit may be released at any time.
  if (request.is_for_permit()) return now < request.until;
  const bool is_in_time = TimerQueue::later(now, retry_after) <= request.until;
  // The store may be back by then.
  if (denied.decision.source == Source::kPolicy) return is_in_time;
  return has_later(denied.bound().limit.definition()) && !exceeds_timeout(request, denied) &&
         is_in_time;
}

}  // namespace sluice

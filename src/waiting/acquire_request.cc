#include "waiting/acquire_request.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "algorithms/limit_definition.h"
#include "waiting/permit_id.h"
#include "waiting/returns.h"

namespace sluice {
namespace {

// Whether a caller that such a limit denies can hope for later: a bucket takes what is to come
// already.
bool has_later(const LimitDefinition& limit) {
  return std::ranges::any_of(limit.parts, [](const AnyPart& part) {
    return std::visit(
        []<class P>(const P&) {
          return !std::is_same_v<typename P::Algorithm::State, BucketState>;
        },
        part);
  });
}

}  // namespace

Request request_for(const AcquireRequest& request, const BoundLimit& bound,
                    TimerThread::TimePoint now) {
  Request asked = bound.request(request.key);
  asked.cost = request.cost;
  asked.permit = request.permit;
  if (request.is_for_permit()) return asked;
  const auto left = request.until == TimerThread::kEndOfTime ? std::chrono::nanoseconds::max()
                                                             : request.until - now;
  asked.patience_ns = std::max<std::int64_t>(0, left.count());
  return asked;
}

AcquireOutcome ask_now(AcquireRequest& request, TimerThread::TimePoint now) {
  AcquireOutcome outcome{
      .permit = request.permit, .asked = now, .bound = &request.binding->bound()};
  try {
    outcome.decision = request.binding->ask(request_for(request, *outcome.bound, now));
  } catch (const std::exception&) {
    outcome.error = std::current_exception();
  }
  reclaim_unanswered(request, outcome);
  return outcome;
}

void reclaim_unanswered(AcquireRequest& request, const AcquireOutcome& outcome,
                        std::shared_ptr<TimerThread> timer) {
  const Source source = outcome.decision.source;
  const bool is_answered =
      outcome.error == nullptr && source != Source::kLocal && source != Source::kPolicy;
  if (!request.is_for_permit() || is_answered) return;
  reclaim(request.binding, *outcome.bound, request.key, request.permit, std::move(timer));
  request.permit = new_permit_id();
}

bool can_wait(const AcquireRequest& request, const AcquireOutcome& denied,
              TimerThread::TimePoint now) {
  const auto retry_after = denied.decision.retry_after;
  if (denied.error != nullptr || denied.decision.allowed || retry_after == kNever) return false;
  // A permit may be released at any time.
  if (request.is_for_permit()) return now < request.until;
  return has_later(denied.bound->limit.definition()) &&
         TimerThread::later(now, retry_after) <= request.until;
}

}  // namespace sluice

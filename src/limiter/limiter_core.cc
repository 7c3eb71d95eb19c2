#include "limiter/limiter_core.h"

#include <cassert>

#include "core/instant.h"
#include "sluice/store.h"

namespace sluice {

namespace {

void require_block_duration(std::int64_t duration_ns) {
  if (duration_ns >= 1 && duration_ns <= kMaxDurationNs) return;
  throw std::invalid_argument("a block lasts from 1 to " + std::to_string(kMaxDurationNs) +
                              " ns, not " + std::to_string(duration_ns));
}

std::string_view units_of(Operation operation) {
  switch (operation) {
    case Operation::kRefund:
      return "a refund";
    case Operation::kCharge:
      return "a charge";
    case Operation::kTakeUpTo:
      return "what is taken";
    default:
      return "a cost";
  }
}

Request make_request(const BoundLimit& bound, Operation operation, std::string_view key,
                     std::int64_t number) {
  Request request = bound.request(key);
  request.operation = operation;
  if (operation == Operation::kBlock) {
    require_block_duration(number);
    request.duration_ns = number;
  } else {
    require_units(units_of(operation), number);
    request.cost = number;
  }
  return request;
}

// Whether the request wakes callers that wait for the key.
bool wakes(const Request& request) {
  if (request.operation == Operation::kRefund) return request.cost > 0;
  return request.operation == Operation::kReset || request.operation == Operation::kBlock;
}

// The number is for wake(). Called before the store is asked.
std::uint64_t begin_waking(WaitQueues& queues, const Request& request) {
  return request.operation == Operation::kReset ? queues.callers().begin_reset(request.key) : 0;
}

// Wakes them, after the operation, unless it ended with an error. Callers that have reserved units
// learn only of a reset that the store has carried out: they abandon their reservation, which a
// store that did not answer may still count. REQUIRES: wakes(request).
void wake(WaitQueues& queues, const Request& request, std::uint64_t begun, const Decision& answer,
          const std::exception_ptr& error) {
  assert(wakes(request));
  if (request.operation == Operation::kReset) queues.callers().end_reset(request.key);
  if (error) return;
  if (request.operation == Operation::kBlock) {
    // The policy says that it has blocked, and has not: no caller is to be denied.
    if (!answer.allowed || answer.source == Source::kPolicy) return;
    Decision denial = answer;
    denial.allowed = false;
    denial.retry_after = std::chrono::nanoseconds(request.duration_ns);
    return queues.callers().wake(request.key, Waking::kBlocked, denial);
  }
  if (request.operation == Operation::kReset && answer.source == Source::kStore) {
    queues.callers().wake(request.key, Waking::kReset, {}, begun);
  }
  queues.released(request.key);
}

}  // namespace

void refuse(std::string_view what, std::string_view least, std::int64_t number) {
  throw std::invalid_argument(std::string(what) + " is at least " + std::string(least) + ", not " +
                              std::to_string(number));
}

Decision LimiterCore::ask(const Request& request) const {
  if (!wakes(request)) return store().decide_one(request);
  const std::uint64_t begun = begin_waking(queues(), request);
  Decision decision;
  auto error = error_in([&] { decision = store().decide_one(request); });
  wake(queues(), request, begun, decision, error);
  if (error) std::rethrow_exception(std::move(error));
  return decision;
}

void LimiterCore::async_ask(const BoundLimit& bound, const Request& request,
                            DecisionCallback callback) const {
  assert(request.space == bound.space.get());
  if (wakes(request)) {
    callback = [queues = binding_->queues(), asked = request,
                begun = begin_waking(queues(), request), key = std::string(request.key),
                then = std::move(callback)](const Decision& decision,
                                            std::exception_ptr error) mutable {
      asked.key = key;
      wake(*queues, asked, begun, decision, error);
      then(decision, std::move(error));
    };
  }
  const BoundLimit* const about = &bound;
  submit_requests(store(), {&about, 1}, {&request, 1}, Batch::Mode::kEach,
                  [callback = std::move(callback)](const Batch* batch, std::exception_ptr error) {
                    if (error) return callback({}, std::move(error));
                    callback(batch->decisions()[0], nullptr);
                  });
}

Decision LimiterCore::ask(Operation operation, std::string_view key, std::int64_t number) const {
  return ask(make_request(bound(), operation, key, number));
}

void LimiterCore::async_ask(Operation operation, std::string_view key, std::int64_t number,
                            DecisionCallback callback) const {
  const BoundLimit& bound = this->bound();
  Request request;
  if (auto error = error_in([&] { request = make_request(bound, operation, key, number); })) {
    return callback({}, std::move(error));
  }
  async_ask(bound, request, std::move(callback));
}

Reservation LimiterCore::reservation(AcquireClaim claim, const AcquireOutcome& outcome,
                                     std::size_t i) const {
  if (!outcome.decision.allowed) return {outcome.decision, nullptr};
  return {outcome.decision, std::make_unique<Reservation::Impl>(
                                Reservation::Impl{*this, taken(std::move(claim), outcome, i)})};
}

}  // namespace sluice

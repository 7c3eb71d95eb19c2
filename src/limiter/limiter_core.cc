#include "limiter/limiter_core.h"

#include <algorithm>
#include <cassert>
#include <exception>
#include <string>

#include "limiter/argument_checks.h"
#include "sluice/store.h"

namespace sluice {
namespace {

Request to_peek(const BoundLimit& bound, std::string_view key) {
  Request request = bound.request(key);
  request.cost = 0;
  return request;
}

Request to_block(const BoundLimit& bound, std::string_view key, std::chrono::nanoseconds duration) {
  require_block_duration(duration);
  Request request = bound.request(key);
  request.operation = Operation::kBlock;
  request.duration_ns = duration.count();
  return request;
}

Request to_reset(const BoundLimit& bound, std::string_view key) {
  Request request = bound.request(key);
  request.operation = Operation::kReset;
  return request;
}

void require_reset(std::string_view key, const Decision& answer) {
  if (answer.source == Source::kStore) return;
  throw StoreError("the store did not answer: the key '" + std::string(key) +
                   "' is reset in this process at most");
}

// What decide() would have thrown.
std::exception_ptr error_of_batch(const Batch& batch) {
  const auto is_lost = [](const Decision& one) { return one.source == Source::kUnavailable; };
  if (std::ranges::none_of(batch.decisions(), is_lost)) return nullptr;
  return std::make_exception_ptr(StoreError(batch.error()));
}

}  // namespace

void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback callback) {
  assert(request.space == bound.space.get());
  if (!store.answers_later()) {
    Decision decision;
    auto error = error_in([&] { store.decide({&request, 1}, kStoreTime, {&decision, 1}); });
    callback(decision, std::move(error));
    return;
  }
  auto batch = std::make_unique<Batch>(std::span(&request, 1));
  batch->keep(std::make_shared<const BoundLimit>(bound));
  batch->completion = [callback = std::move(callback)](Batch& completed) {
    auto error = error_of_batch(completed);
    callback(error ? Decision{} : completed.decisions()[0], std::move(error));
  };
  store.submit(std::move(batch));
}

void ask_later(Store& store, std::span<const BoundLimit* const> bounds,
               std::span<const Request> requests, Batch::Mode mode, BatchCallback callback) {
  auto batch = std::make_unique<Batch>(requests, mode);
  for (const BoundLimit* bound : bounds) batch->keep(std::make_shared<const BoundLimit>(*bound));
  batch->completion = [callback](Batch& completed) {
    const auto decisions = completed.decisions();
    callback({decisions.begin(), decisions.end()}, error_of_batch(completed));
  };
  auto error = error_in([&] { store.submit(std::move(batch)); });
  if (error) callback({}, std::move(error));
}

DecisionCallback then_wake(const std::shared_ptr<WaitQueues>& queues, std::string_view key,
                           DecisionCallback callback) {
  return [queues, key = std::string(key), callback = std::move(callback)](
             const Decision& decision, std::exception_ptr error) {
    if (!error) queues->released(key);
    callback(decision, std::move(error));
  };
}

Decision LimiterCore::peek(std::string_view key) const {
  return ask(to_peek(bound(), key));
}

void LimiterCore::async_peek(std::string_view key, DecisionCallback callback) const {
  const BoundLimit& bound = this->bound();
  ask_later(*binding_->store(), bound, to_peek(bound, key), std::move(callback));
}

Decision LimiterCore::block(std::string_view key, std::chrono::nanoseconds duration) const {
  return ask(to_block(bound(), key, duration));
}

void LimiterCore::async_block(std::string_view key, std::chrono::nanoseconds duration,
                              DecisionCallback callback) const {
  const BoundLimit& bound = this->bound();
  Request request;
  if (auto error = error_in([&] { request = to_block(bound, key, duration); })) {
    return callback({}, std::move(error));
  }
  ask_later(*binding_->store(), bound, request, std::move(callback));
}

void LimiterCore::reset(std::string_view key) const {
  require_reset(key, ask(to_reset(bound(), key)));
  queues_->released(key);
}

void LimiterCore::async_reset(std::string_view key, DoneCallback callback) const {
  const BoundLimit& bound = this->bound();
  ask_later(*binding_->store(), bound, to_reset(bound, key),
            [queues = queues_, key = std::string(key), callback = std::move(callback)](
                const Decision& answer, std::exception_ptr error) {
              if (!error) error = error_in([&] { require_reset(key, answer); });
              if (!error) queues->released(key);
              callback(std::move(error));
            });
}

void LimiterCore::set_limit(Limit limit) {
  binding_->set_limit(std::move(limit));
  queues_->released_all();  // Those that wait ask again by the new limit.
}

}  // namespace sluice

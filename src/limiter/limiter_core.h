#pragma once

#include <chrono>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "core/store.h"
#include "sluice/decision.h"
#include "sluice/limiter.h"
#include "waiting/limit_binding.h"
#include "waiting/wait_queues.h"

namespace sluice {

/// What Limiter and ConcurrencyLimiter consist of alike: a limit in a store, the queues of the
/// callers that wait at it, and the questions that both ask. What is under way through it holds
/// shares of its parts. Thread-safe.
class LimiterCore {
 public:
  LimiterCore(std::shared_ptr<Store> store, Limit limit, LimitBinding::Kind kind)
      : binding_(std::make_shared<LimitBinding>(std::move(store), std::move(limit), kind)),
        queues_(bound().space->attachment<WaitQueues>()) {}

  const std::shared_ptr<LimitBinding>& binding() const { return binding_; }
  const BoundLimit& bound() const { return binding_->bound(); }
  /// Those of all spaces that the limit has had.
  WaitQueues& queues() const { return *queues_; }
  const std::shared_ptr<WaitQueues>& shared_queues() const { return queues_; }

  Decision ask(const Request& request) const { return binding_->ask(request); }

  // As those of Limiter.
  Decision peek(std::string_view key) const;
  Decision block(std::string_view key, std::chrono::nanoseconds duration) const;
  void reset(std::string_view key) const;
  void async_peek(std::string_view key, DecisionCallback callback) const;
  void async_block(std::string_view key, std::chrono::nanoseconds duration,
                   DecisionCallback callback) const;
  void async_reset(std::string_view key, DoneCallback callback) const;
  void set_limit(Limit limit);

 private:
  const std::shared_ptr<LimitBinding> binding_;
  const std::shared_ptr<WaitQueues> queues_;
};

/// Asks one question and does not wait: `callback` is called once, before this returns where the
/// store answers at once. It is given the decision, or what decide() would have thrown. The limit
/// and its space are kept until then; the store is not. REQUIRES: the request is about `bound`.
void ask_later(Store& store, const BoundLimit& bound, const Request& request,
               DecisionCallback callback);

/// The same for several, which are about `bounds`; all or nothing, where they are together.
void ask_later(Store& store, std::span<const BoundLimit* const> bounds,
               std::span<const Request> requests, Batch::Mode mode, BatchCallback callback);

/// A callback for what gives units of the key back: if it has, it first wakes the caller that waits
/// for them here.
DecisionCallback then_wake(const std::shared_ptr<WaitQueues>& queues, std::string_view key,
                           DecisionCallback callback);

}  // namespace sluice

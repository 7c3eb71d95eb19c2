#include "waiting/limit_binding.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <variant>

#include "algorithms/limit_definition.h"
#include "sluice/store.h"

namespace sluice {
namespace {

// What decide() would have thrown.
std::exception_ptr error_of_batch(const Batch& batch) {
  const auto is_lost = [](const Decision& one) { return one.source == Source::kUnavailable; };
  if (std::ranges::none_of(batch.decisions(), is_lost)) return nullptr;
  return std::make_exception_ptr(StoreError(batch.error()));
}

}  // namespace

LimitBinding::LimitBinding(std::shared_ptr<Store> store, Limit limit, Kind kind,
                           std::shared_ptr<WaitQueues> (*queues_of)(Space&))
    : store_(std::move(store)), kind_(kind) {
  if (store_ == nullptr) throw std::invalid_argument("a limiter needs a store, and was given none");
  require_kind(limit);
  auto space = store_->open_space(limit.definition());
  queues_ = queues_of(*space);
  keep(std::move(limit), std::move(space));
}

void LimitBinding::require_kind(const Limit& limit) const {
  const bool has_permits = lends(limit.definition());
  if (has_permits == (kind_ == Kind::kPermits)) return;
  throw InvalidLimit("'" + limit.expression() + "' " +
                         (has_permits ? "lends permits, which a ConcurrencyLimiter gives"
                                      : "is not a concurrency limit: use a Limiter"),
                     0);
}

void LimitBinding::set_limit(Limit limit) {
  require_kind(limit);
  const std::lock_guard lock(mutex_);
  const BoundLimit& former = bound();
  if (limit.space() != former.limit.space()) {
    throw std::invalid_argument("the limit '" + limit.space() + "' cannot replace '" +
                                former.limit.space() + "': their names differ");
  }
  // An equal limit in the same space is reused, so a limit that changes back and forth takes two
  // entries. If keys start fresh, the limit gets a new space; the former one is kept, since
  // requests about it may be in flight.
  if (bounds_.size() >= kMostLimits &&
      !bounds_.contains({former.space.get(), limit.expression()})) {
    throw StoreError("the limit '" + limit.space() + "' has been replaced by " +
                     std::to_string(kMostLimits) + " different ones, the most that are kept");
  }
  auto space = store_->replace_space(former.space, limit.definition());
  keep(std::move(limit), std::move(space));
}

void LimitBinding::keep(Limit limit, std::shared_ptr<Space> space) {
  BoundLimit bound{std::move(limit), std::move(space)};
  const std::pair<const Space*, std::string_view> key(bound.space.get(), bound.limit.expression());
  const auto kept = bounds_.try_emplace(key, std::move(bound)).first;
  current_.store(&kept->second, std::memory_order_release);
}

void submit_requests(Store& store, std::span<const BoundLimit* const> bounds,
                     std::span<const Request> requests, Batch::Mode mode, AnsweredBatch answered) {
  auto batch = std::make_unique<Batch>(requests, mode);
  for (const BoundLimit* bound : bounds) batch->keep(std::make_shared<const BoundLimit>(*bound));
  // Null once it has been called.
  const auto then = std::make_shared<AnsweredBatch>(std::move(answered));
  batch->completion = [then](Batch& completed) {
    std::exchange(*then, nullptr)(&completed, error_of_batch(completed));
  };
  try {
    store.submit(std::move(batch));
  } catch (const std::exception&) {
    if (*then == nullptr) throw;  // It was thrown by the callback.
    (*then)(nullptr, std::current_exception());
  }
}

// Holds a share of the store, since `then` may run, and let go of the store, before submit()
// returns.
void ask_on_timer(std::shared_ptr<Store> store, const Request& request,
                  std::shared_ptr<TimerQueue> timer, std::function<void(const Decision&)> then) {
  submit_requests(
      *store, {}, {&request, 1}, Batch::Mode::kEach,
      [timer = std::move(timer), then = std::move(then)](const Batch* batch, const auto&) mutable {
        const Decision answer =
            batch != nullptr ? batch->decisions()[0] : Decision{.source = Source::kUnavailable};
        timer->post([then = std::move(then), answer] { then(answer); });
      });
}

std::chrono::nanoseconds lease_of(const LimitDefinition& limit) {
  const auto& part = std::get<Part<Concurrency>>(limit.parts[0]);
  return std::chrono::nanoseconds(part.params.lease_ns);
}

}  // namespace sluice

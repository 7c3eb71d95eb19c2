#include "waiting/limit_binding.h"

#include <stdexcept>
#include <variant>

#include "algorithms/limit_definition.h"
#include "sluice/store.h"

namespace sluice {

LimitBinding::LimitBinding(std::shared_ptr<Store> store, Limit limit, Kind kind)
    : store_(std::move(store)), kind_(kind) {
  if (store_ == nullptr) throw std::invalid_argument("a limiter needs a store, and was given none");
  require_kind(limit);
  auto space = store_->open_space(limit.definition());
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

void ask_on_timer(const std::shared_ptr<Store>& store, std::span<const Request> requests,
                  std::shared_ptr<TimerQueue> timer, Answered then, Batch::Mode mode) {
  auto batch = std::make_unique<Batch>(requests, mode);
  batch->completion = [timer = std::move(timer), then = std::move(then)](Batch& completed) mutable {
    const auto decisions = completed.decisions();
    BatchAnswers answers{.decisions = {decisions.begin(), decisions.end()},
                         .error = completed.error()};
    for (const Request& request : completed.requests()) {
      answers.parts.emplace_back(request.parts.begin(), request.parts.end());
    }
    timer->post([then = std::move(then), answers = std::move(answers)] { then(answers); });
  };
  // By a share of its own: `then` may run, and let go of the store, before submit() returns.
  std::shared_ptr<Store>(store)->submit(std::move(batch));
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

std::chrono::nanoseconds lease_of(const BoundLimit& bound) {
  const auto& part = std::get<Part<Concurrency>>(bound.limit.definition().parts[0]);
  return std::chrono::nanoseconds(part.params.lease_ns);
}

}  // namespace sluice

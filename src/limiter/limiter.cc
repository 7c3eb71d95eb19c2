#include "sluice/limiter.h"

#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "core/store.h"
#include "limiter/argument_checks.h"
#include "limiter/limiter_impl.h"
#include "limiter/reservation_impl.h"
#include "limiter/waiting_lines.h"

namespace sluice {
namespace {

// As many at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;

Request of_units(Request request, Operation operation, std::int64_t units) {
  request.operation = operation;
  request.cost = units;
  return request;
}

}  // namespace

Limiter::Limiter(std::shared_ptr<Store> store, Limit limit)
    : impl_(std::make_shared<Impl>(std::move(store), std::move(limit))) {}

Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Decision Limiter::check(std::string_view key, std::int64_t cost) {
  require_units("a cost", cost);
  Request request = impl_->slot.bound().request(key);
  request.cost = cost;
  return impl_->slot.ask(request);
}

void Limiter::check(std::span<const Ask> asks, std::span<Decision> decisions) {
  if (decisions.size() < asks.size()) {
    throw std::invalid_argument("there is room for " + std::to_string(decisions.size()) +
                                " decisions, and there are " + std::to_string(asks.size()) +
                                " to make");
  }
  std::array<Request, kUsualBatch> usual;
  std::vector<Request> many(asks.size() > kUsualBatch ? asks.size() : 0);
  const auto requests = many.empty() ? std::span(usual).first(asks.size()) : std::span(many);
  read_asks(impl_->slot.bound(), asks, requests);
  if (requests.empty()) return;
  impl_->slot.store()->decide(requests, kStoreTime, decisions);
}

void read_asks(const BoundLimit& bound, std::span<const Ask> asks, std::span<Request> requests) {
  for (std::size_t i = 0; i < asks.size(); ++i) {
    require_units("a cost", asks[i].cost);
    requests[i] = bound.request(asks[i].key);
    requests[i].cost = asks[i].cost;
  }
}

Decision Limiter::peek(std::string_view key) {
  return impl_->slot.peek(key);
}

Reservation Limiter::reserve(std::string_view key, std::int64_t cost,
                             std::chrono::nanoseconds patience) {
  require_units("a cost", cost);
  require_patience(patience);
  const BoundLimit& bound = impl_->slot.bound();
  Request request = bound.request(key);
  request.cost = cost;
  request.patience_ns = patience.count();
  const Decision decision = impl_->slot.ask(request);
  if (!decision.allowed) return {decision, nullptr};
  std::shared_ptr<const LimitSlot> slot(impl_, &impl_->slot);
  return {decision,
          std::make_unique<Reservation::Impl>(std::move(slot), bound, request, decision.source)};
}

Decision Limiter::refund(std::string_view key, std::int64_t units) {
  require_units("a refund", units);
  const BoundLimit& bound = impl_->slot.bound();
  const Decision decision =
      impl_->slot.ask(of_units(bound.request(key), Operation::kRefund, units));
  bound.space->companion<WaitingLines>().released(key);
  return decision;
}

Decision Limiter::charge(std::string_view key, std::int64_t units) {
  require_units("a charge", units);
  return impl_->slot.ask(of_units(impl_->slot.bound().request(key), Operation::kCharge, units));
}

Decision Limiter::take_up_to(std::string_view key, std::int64_t units) {
  require_units("what is taken", units);
  return impl_->slot.ask(of_units(impl_->slot.bound().request(key), Operation::kTakeUpTo, units));
}

Decision Limiter::block(std::string_view key, std::chrono::nanoseconds duration) {
  return impl_->slot.block(key, duration);
}

void Limiter::reset(std::string_view key) {
  impl_->slot.reset(key);
  impl_->slot.bound().space->companion<WaitingLines>().released(key);
}

void Limiter::set_limit(Limit limit) {
  impl_->slot.set_limit(std::move(limit));
}

const Limit& Limiter::limit() const {
  return impl_->slot.bound().limit;
}

AskedClaims::AskedClaims(std::span<const Claim> claims) : count_(claims.size()) {
  if (claims.empty() || claims.size() > kMaxTogether) {
    throw std::invalid_argument("from 1 to " + std::to_string(kMaxTogether) +
                                " claims are taken from together, not " +
                                std::to_string(claims.size()));
  }
  store_ = claims[0].limiter.impl_->slot.store().get();
  for (std::size_t i = 0; i < claims.size(); ++i) {
    const LimitSlot& slot = claims[i].limiter.impl_->slot;
    if (slot.store().get() != store_) {
      throw std::invalid_argument("the limits '" + claims[0].limiter.limit().space() + "' and '" +
                                  slot.bound().limit.space() +
                                  "' are in different stores: one step takes from one store");
    }
    require_units("a cost", claims[i].cost);
    bounds_[i] = &slot.bound();
    requests_[i] = bounds_[i]->request(claims[i].key);
    requests_[i].cost = claims[i].cost;
  }
}

Decision check_all(std::span<const Claim> claims) {
  const AskedClaims asked(claims);
  return asked.store().decide_all(asked.requests(), kStoreTime);
}

}  // namespace sluice

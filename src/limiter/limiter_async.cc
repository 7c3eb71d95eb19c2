#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/limiter_impl.h"
#include "limiter/reservation_impl.h"

namespace sluice {
namespace {

struct Units {
  Operation operation;
  std::int64_t number;
  /// As for require_units().
  std::string_view what;
};

void ask_for(const LimitSlot& slot, std::string_view key, const Units& units,
             DecisionCallback callback) {
  if (auto fault = fault_in([&] { require_units(units.what, units.number); })) {
    return callback({}, std::move(fault));
  }
  const BoundLimit& bound = slot.bound();
  Request request = bound.request(key);
  request.operation = units.operation;
  request.cost = units.number;
  if (units.operation == Operation::kRefund) {
    callback = then_wake(bound, key, std::move(callback));
  }
  ask_later(*slot.store(), bound, request, std::move(callback));
}

}  // namespace

void Limiter::async_check(std::string_view key, std::int64_t cost, DecisionCallback callback) {
  ask_for(impl_->slot, key, {Operation::kTake, cost, "a cost"}, std::move(callback));
}

void Limiter::async_refund(std::string_view key, std::int64_t units, DecisionCallback callback) {
  ask_for(impl_->slot, key, {Operation::kRefund, units, "a refund"}, std::move(callback));
}

void Limiter::async_charge(std::string_view key, std::int64_t units, DecisionCallback callback) {
  ask_for(impl_->slot, key, {Operation::kCharge, units, "a charge"}, std::move(callback));
}

void Limiter::async_take_up_to(std::string_view key, std::int64_t units,
                               DecisionCallback callback) {
  ask_for(impl_->slot, key, {Operation::kTakeUpTo, units, "what is taken"}, std::move(callback));
}

void Limiter::async_peek(std::string_view key, DecisionCallback callback) {
  impl_->slot.async_peek(key, std::move(callback));
}

void Limiter::async_block(std::string_view key, std::chrono::nanoseconds duration,
                          DecisionCallback callback) {
  impl_->slot.async_block(key, duration, std::move(callback));
}

void Limiter::async_reset(std::string_view key, DoneCallback callback) {
  impl_->slot.async_reset(key, std::move(callback));
}

void Limiter::async_check(std::span<const Ask> asks, BatchCallback callback) {
  const BoundLimit& bound = impl_->slot.bound();
  std::vector<Request> requests(asks.size());
  auto fault = fault_in([&] { read_asks(bound, asks, requests); });
  if (fault || requests.empty()) return callback({}, std::move(fault));
  ask_later(*impl_->slot.store(), {.requests = requests, .bounds = {bound}}, std::move(callback));
}

void Limiter::async_reserve(std::string_view key, std::int64_t cost,
                            std::chrono::nanoseconds patience, ReservationCallback callback) {
  auto fault = fault_in([&] {
    require_units("a cost", cost);
    require_patience(patience);
  });
  if (fault) return callback({}, std::move(fault));
  const std::shared_ptr<const LimitSlot> slot(impl_, &impl_->slot);
  const BoundLimit& bound = slot->bound();
  Request request = bound.request(key);
  request.cost = cost;
  request.patience_ns = patience.count();
  ask_later(*slot->store(), bound, request,
            [slot, &bound, key = std::string(key), cost, callback = std::move(callback)](
                const Decision& decision, std::exception_ptr error) {
              if (error || !decision.allowed) {
                return callback(Reservation(decision, nullptr), std::move(error));
              }
              Request taken = bound.request(key);
              taken.cost = cost;
              callback({decision,
                        std::make_unique<Reservation::Impl>(slot, bound, taken, decision.source)},
                       nullptr);
            });
}

void async_check_all(std::span<const Claim> claims, DecisionCallback callback) {
  std::optional<AskedClaims> asked;
  if (auto fault = fault_in([&] { asked.emplace(claims); })) {
    return callback({}, std::move(fault));
  }
  Questions questions{.requests = asked->requests(), .bounds = {}, .together = true};
  for (const BoundLimit* bound : asked->bounds()) questions.bounds.push_back(*bound);
  ask_later(asked->store(), std::move(questions),
            [callback = std::move(callback)](const std::vector<Decision>& decisions,
                                             std::exception_ptr error) {
              callback(decisions[0], std::move(error));
            });
}

}  // namespace sluice

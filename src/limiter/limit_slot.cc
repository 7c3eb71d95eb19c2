#include "limiter/limit_slot.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "algorithms/limit_definition.h"
#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/waiting_lines.h"
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

}  // namespace

LimitSlot::LimitSlot(std::shared_ptr<Store> store, Limit limit, Kind kind)
    : store_(std::move(store)), kind_(kind) {
  if (store_ == nullptr) throw std::invalid_argument("a limiter needs a store, and was given none");
  require_kind(limit);
  auto space = store_->open_space(limit.definition());
  keep(std::move(limit), std::move(space));
}

void LimitSlot::require_kind(const Limit& limit) const {
  const bool lent = lends(limit.definition());
  if (lent == (kind_ == Kind::kLent)) return;
  throw InvalidLimit("'" + limit.expression() + "' " +
                         (lent ? "lends permits, which a ConcurrencyLimiter gives"
                               : "is no concurrency: a Limiter asks about it"),
                     0);
}

Decision LimitSlot::peek(std::string_view key) const {
  return ask(to_peek(bound(), key));
}

void LimitSlot::async_peek(std::string_view key, DecisionCallback callback) const {
  const BoundLimit& bound = this->bound();
  ask_later(*store_, bound, to_peek(bound, key), std::move(callback));
}

Decision LimitSlot::block(std::string_view key, std::chrono::nanoseconds duration) const {
  return ask(to_block(bound(), key, duration));
}

void LimitSlot::async_block(std::string_view key, std::chrono::nanoseconds duration,
                            DecisionCallback callback) const {
  const BoundLimit& bound = this->bound();
  Request request;
  if (auto fault = fault_in([&] { request = to_block(bound, key, duration); })) {
    return callback({}, std::move(fault));
  }
  ask_later(*store_, bound, request, std::move(callback));
}

void LimitSlot::reset(std::string_view key) const {
  require_reset(key, ask(to_reset(bound(), key)));
}

void LimitSlot::async_reset(std::string_view key, DoneCallback callback) const {
  const BoundLimit& bound = this->bound();
  ask_later(*store_, bound, to_reset(bound, key),
            [space = bound.space.get(), key = std::string(key), callback = std::move(callback)](
                const Decision& answer, std::exception_ptr error) {
              if (!error) error = fault_in([&] { require_reset(key, answer); });
              if (!error) space->companion<WaitingLines>().released(key);
              callback(std::move(error));
            });
}

void LimitSlot::set_limit(Limit limit) {
  require_kind(limit);
  const std::lock_guard lock(mutex_);
  const BoundLimit& former = bound();
  if (limit.space() != former.limit.space()) {
    throw std::invalid_argument("the limit '" + limit.space() + "' cannot replace '" +
                                former.limit.space() + "': their names differ");
  }
  // Of equal ones none is kept twice while the keys go on: a limit that changes to and fro takes no
  // more than two. Where they start fresh, each change takes a space, which is kept as well: what
  // was asked before may still be under way in the former.
  const auto find = [&](const Space* space) { return bounds_.find({space, limit.expression()}); };
  if (bounds_.size() >= kMostLimits && find(held_->get()) == bounds_.end()) {
    throw StoreError("the limit '" + limit.space() + "' has been replaced by " +
                     std::to_string(kMostLimits) + " different ones, the most that are kept");
  }
  // A space that replaces this one shares its lines, where they have been made: so who comes later
  // stands behind those who wait already, and what is given back wakes these.
  auto& lines = former.space->companion<WaitingLines>();
  auto space = store_->replace_space(*held_, limit.definition());
  if (const auto known = find(space.get()); known != bounds_.end()) {
    current_.store(&known->second, std::memory_order_release);
  } else {
    keep(std::move(limit), std::move(space));
  }
  lines.released_all();  // They ask again by the new limit.
}

void LimitSlot::keep(Limit limit, std::shared_ptr<Space> space) {
  if (held_ == nullptr || *held_ != space) {
    held_ = std::make_shared<const std::shared_ptr<Space>>(std::move(space));
  }
  BoundLimit bound{std::move(limit), {held_, held_->get()}};
  const std::pair<const Space*, std::string_view> key(held_->get(), bound.limit.expression());
  current_.store(&bounds_.emplace(key, std::move(bound)).first->second, std::memory_order_release);
}

}  // namespace sluice

#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>

#include "limiter/limit_slot.h"
#include "sluice/limiter.h"

namespace sluice {

/// What a Limiter consists of. What is asked through it holds a share of it, and so of its store,
/// its limits and their spaces, until it is answered.
class Limiter::Impl {
 public:
  Impl(std::shared_ptr<Store> store, Limit limit)
      : slot(std::move(store), std::move(limit), LimitSlot::Kind::kSpent) {}

  LimitSlot slot;
};

/// What claims ask, and the one store that they share.
class AskedClaims {
 public:
  /// Throws std::invalid_argument where that is not so, as check_all().
  explicit AskedClaims(std::span<const Claim> claims);

  Store& store() const { return *store_; }
  std::span<const Request> requests() const { return std::span(requests_).first(count_); }
  /// bounds()[i] is what requests()[i] is about.
  std::span<const BoundLimit* const> bounds() const { return std::span(bounds_).first(count_); }

 private:
  Store* store_ = nullptr;
  std::size_t count_ = 0;
  std::array<Request, kMaxTogether> requests_;
  std::array<const BoundLimit*, kMaxTogether> bounds_{};
};

/// What is asked of each; throws std::invalid_argument where a cost is out of range. REQUIRES:
/// requests.size() >= asks.size().
void read_asks(const BoundLimit& bound, std::span<const Ask> asks, std::span<Request> requests);

}  // namespace sluice

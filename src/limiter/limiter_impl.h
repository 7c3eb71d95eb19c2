#pragma once

#include <memory>
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

}  // namespace sluice

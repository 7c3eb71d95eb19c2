#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "limiter/limiter_core.h"
#include "sluice/limiter.h"

namespace sluice {

/// What a Limiter consists of.
class Limiter::Impl final : public LimiterCore {
 public:
  using LimiterCore::LimiterCore;

  /// Of units for which `bound` was asked, and which this decision may have granted.
  Reservation reservation(const Decision& decision, const BoundLimit& bound, std::string_view key,
                          std::int64_t cost) const {
    if (!decision.allowed) return {decision, nullptr};
    return {decision,
            std::make_unique<Reservation::Impl>(*this, bound, key, cost, decision.source)};
  }
};

}  // namespace sluice

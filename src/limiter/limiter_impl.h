#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
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

  /// A request whose timeout begins now.
  AcquireRequest acquire_request(std::string_view key, std::int64_t cost,
                                 std::chrono::nanoseconds patience) const;

  /// Blocks until the caller may go ahead, or is denied. `asked` is what the store has answered to
  /// this request, if it was asked already. Throws StoreError.
  Decision acquire(AcquireRequest request, std::optional<AcquireOutcome> asked,
                   const std::stop_token& stop) const;

  /// Takes without blocking: `callback` is called once the caller may go ahead, or is denied.
  static void acquire_later(const std::shared_ptr<const Impl>& impl, AcquireRequest request,
                            DecisionCallback callback, const std::stop_token& stop);

 private:
  // Takes at once, or waits in the queue of the key. Where it is granted, the caller still has to
  // wait for the decision's delay.
  AcquireOutcome take_or_wait(AcquireRequest& request, std::optional<AcquireOutcome> asked,
                              const std::stop_token& stop) const;
};

}  // namespace sluice

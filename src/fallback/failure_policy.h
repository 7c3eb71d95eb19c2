#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "core/batch.h"
#include "sluice/decision.h"

namespace sluice {

/// The failure policy: who answers a request that the store has not answered.
enum class OnFailure : std::uint8_t {
  kLocal,  ///< A memory store of this process (LocalFallback): Source::kLocal.
  kAllow,  ///< Allowed, with nothing remaining: Source::kPolicy.
  kDeny,   ///< Denied, to be tried again after kPolicyWait; what takes nothing is allowed.
  kRaise,  ///< StoreError.
};

/// The retry_after of a denial by OnFailure::kDeny, and the reset_after of all its answers.
inline constexpr std::chrono::seconds kPolicyWait{1};

/// The answer to a request, or to several that are asked together, and to their parts. REQUIRES:
/// the policy is kAllow or kDeny.
Decision policy_decision(OnFailure policy, std::span<const Request> requests);

}  // namespace sluice

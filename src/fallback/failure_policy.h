#pragma once

#include <chrono>
#include <cstdint>
#include <span>

#include "core/store.h"

namespace sluice {

/// What is answered where the store did not.
enum class OnFailure : std::uint8_t {
  kLocal,  ///< What a memory store of this process says: Source::kLocal.
  kAllow,  ///< Allowed, with nothing remaining: Source::kPolicy.
  kDeny,   ///< Denied, to be tried again after kPolicyWait; what takes nothing is allowed.
  kRaise,  ///< StoreError.
};

inline constexpr std::chrono::seconds kPolicyWait{1};

/// The answer to a request, or to several asked together. REQUIRES: the policy is to allow or deny.
Decision policy_decision(OnFailure policy, std::span<const Request> requests);

}  // namespace sluice

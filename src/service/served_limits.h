#pragma once

#include <utility>
#include <vector>

#include "sluice/limit.h"

namespace sluice {

/// Which limits a server answers for.
struct ServedLimits {
  ServedLimits() = default;
  /// These, and expressions.
  ServedLimits(std::vector<Limit> limits) : named(std::move(limits)) {}

  /// The limits that requests may name.
  std::vector<Limit> named = {};
  /// Whether requests may also say in their own words what the limit is: an expression, or the
  /// numbers of CL.THROTTLE.
  bool expressions = true;
};

}  // namespace sluice

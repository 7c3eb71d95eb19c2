#pragma once

#include <cstdint>

#include "algorithms/limit_definition.h"
#include "core/batch.h"
#include "core/operation.h"

namespace sluice {

/// Why a limit cannot carry out a request: some limits have permits, the others units.
enum class Misfit : std::uint8_t {
  kNone,
  kNoPermits,  ///< The request is about a permit, and the limit lends none.
  kPermits,    ///< The request is about units, and the limit lends permits.
};

/// A request for no units, a reset or a block fits every limit.
inline Misfit misfit_of(const LimitDefinition& limit, const Request& request) {
  const bool is_of_permits = request.permit != 0;
  if (lends(limit) == is_of_permits) return Misfit::kNone;
  if (is_of_permits) return Misfit::kNoPermits;
  const bool is_of_units =
      request.cost > 0 &&
      (request.operation == Operation::kTake || request.operation == Operation::kTakeUpTo ||
       request.operation == Operation::kRefund || request.operation == Operation::kCharge);
  return is_of_units ? Misfit::kPermits : Misfit::kNone;
}

}  // namespace sluice

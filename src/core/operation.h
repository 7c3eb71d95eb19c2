#pragma once

#include <cstdint>

namespace sluice {

/// What can be asked of a key. What changes a state is one atomic step of the store; what is denied
/// changes nothing.
enum class Operation : std::uint8_t {
  kTake,      ///< Takes `cost` units or is denied; cost 0 is a peek. Of a limit of permits: one
              ///< permit, under the name `permit`; a higher cost is never admitted.
  kTakeUpTo,  ///< Takes as many of `cost` units as remain, none on credit: Decision::taken. Denied
              ///< where that is none.
  kCharge,    ///< Takes `cost` units, be there as many or not: the key may go into debt.
  kRefund,    ///< Gives `cost` units back, never beyond fresh.
  kBlock,     ///< Denies every cost above 0 from now on for `duration_ns`, or until an earlier
              ///< block ends, if that is later.
  kReset,     ///< Forgets the key: as if never seen.
  kRenew,     ///< Lets `permit` count for a whole lease from now on. Denied, never to be admitted,
              ///< where it is not held (any more).
  kRelease,   ///< Gives `permit` back. Denied likewise.
};

/// The name of a permit among those of its key: random, and none is 0.
using PermitId = std::uint64_t;

}  // namespace sluice

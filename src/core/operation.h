#pragma once

#include <cstdint>

namespace sluice {

/// The operations on a key. Each is one atomic step of the store; a denied one changes nothing.
enum class Operation : std::uint8_t {
  kTake,      ///< Takes `cost` units or is denied; cost 0 is a peek. For a `concurrency` limit it
              ///< acquires one permit with the id `permit`; a cost above 1 is never admitted.
  kTakeUpTo,  ///< Takes `cost` units or as many as remain (Decision::taken), without borrowing.
              ///< Denied if none remain.
  kCharge,    ///< Takes `cost` units unconditionally: the key may go into debt.
  kRefund,    ///< Returns `cost` units, at most until the key is fresh.
  kBlock,     ///< Denies every cost above 0 for `duration_ns` from now, or until an earlier block
              ///< ends if that is later.
  kReset,     ///< Forgets the key: it becomes fresh, as if never seen.
  kRenew,     ///< Extends `permit` to a whole lease from now. Denied, with kNever, if it is not
              ///< held.
  kRelease,   ///< Releases `permit`. Denied, with kNever, if it is not held.
};

/// Identifies a permit among those of its key: random, never 0.
using PermitId = std::uint64_t;

}  // namespace sluice

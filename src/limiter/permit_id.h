#pragma once

#include "core/operation.h"

namespace sluice {

/// Another one each time, which nobody can guess: random, from the system, never 0. Thread-safe.
/// Throws std::system_error where the system has no random numbers.
PermitId new_permit_id();

}  // namespace sluice

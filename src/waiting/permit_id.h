#pragma once

#include "core/operation.h"

namespace sluice {

/// Another one each time: random, never 0. Thread-safe.
PermitId new_permit_id();

}  // namespace sluice

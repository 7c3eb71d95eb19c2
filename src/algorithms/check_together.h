#pragma once

#include <span>

#include "core/batch.h"

namespace sluice {

/// Throws std::invalid_argument if no store can take from these requests together: see
/// Store::decide_all().
void check_together(std::span<const Request> requests);

}  // namespace sluice

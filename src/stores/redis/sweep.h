#pragma once

#include <chrono>
#include <string>

#include "stores/redis/fleet.h"
#include "stores/remote/courier.h"

namespace sluice::redis {

/// Removes every key that begins with `prefix` from all servers of the fleet, as far as they answer
/// within `patience`. Not on the courier's thread.
void sweep(Courier& courier, Fleet& fleet, const std::string& prefix,
           std::chrono::milliseconds patience);

}  // namespace sluice::redis

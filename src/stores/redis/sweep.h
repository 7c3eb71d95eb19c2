#pragma once

#include <chrono>
#include <string>

#include "stores/redis/carrier.h"
#include "stores/remote/courier.h"

namespace sluice::redis {

/// Removes every key that begins with `prefix` from all servers that have ever greeted, page by
/// page, for as long as they answer: it ends early once none of them has answered for `patience`.
/// Returns a sentence that says what may be left there, and why; empty where nothing is. Not on the
/// courier's thread, and not before it has started. Throws std::bad_alloc.
std::string sweep(Courier& courier, RedisCarrier& carrier, const std::string& prefix,
                  std::chrono::milliseconds patience);

}  // namespace sluice::redis

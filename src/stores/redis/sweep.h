#pragma once

#include <chrono>
#include <string>

#include "stores/redis/redis_router.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

/// Removes every key that begins with `prefix` from all servers, if any was ever connected, page by
/// page, for as long as they answer: it ends early once none of them has answered for `patience`.
/// Returns a sentence that says what may be left there, and why; empty where nothing is. Not on the
/// worker thread, and not before it has started.
std::string sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
                  std::chrono::milliseconds patience);

}  // namespace sluice::redis

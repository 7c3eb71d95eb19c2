#pragma once

#include <chrono>
#include <string>

#include "stores/redis/redis_router.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

/// Removes every key that begins with `prefix` from all servers, if any was ever connected, page by
/// page. It ends early where a server does not answer, and asks for no more pages after `most`: a
/// server may name pages of keys without an end. REQUIRES: the worker has started, and the caller
/// is not the worker thread.
void sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
           std::chrono::milliseconds most = std::chrono::hours(1));

}  // namespace sluice::redis

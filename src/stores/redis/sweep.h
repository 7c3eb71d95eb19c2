#pragma once

#include <chrono>
#include <string>

#include "stores/redis/redis_router.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

struct SweepTimeouts {
  /// It ends early if no server has answered for so long,
  std::chrono::milliseconds silence{5'000};
  /// or if it has not ended by then: a server may name pages of keys without an end.
  std::chrono::milliseconds all{3'600'000};
};

/// Removes every key that begins with `prefix` from all servers, if any was ever connected, page by
/// page. Returns one sentence that says which keys may be left, and why; empty if none are.
/// REQUIRES: the worker has started, and the caller is not the worker thread.
std::string sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
                  const SweepTimeouts& timeouts = {});

}  // namespace sluice::redis

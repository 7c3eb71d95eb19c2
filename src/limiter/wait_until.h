#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <utility>

#include "limiter/timekeeper.h"

namespace sluice {

/// Waits on the calling thread until `ready`. False where `stop` ended the wait.
inline bool wait_until(Timekeeper::TimePoint ready, std::stop_token stop) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  return never.wait_until(lock, std::move(stop), ready,
                          [&] { return Timekeeper::TimePoint::clock::now() >= ready; });
}

}  // namespace sluice

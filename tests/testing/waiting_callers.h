#pragma once

#include <future>
#include <thread>

#include "core/store.h"
#include "sluice/limit.h"
#include "waiting/timer_thread.h"
#include "waiting/wait_queues.h"

namespace sluice {

/// How many callers of this process wait at a limit.
inline std::size_t waiting_callers(Store& store, const Limit& limit) {
  return store.open_space(limit.definition())->attachment<WaitQueues>()->waiting();
}

/// Returns once the process's timer thread has run what is due now, what that posted, and so on
/// three times: a caller joins its queue, it asks, and it is answered.
inline void pass_timer_thread() {
  for (int i = 0; i < 3; ++i) {
    std::promise<void> ran;
    TimerThread::shared()->post([&] { ran.set_value(); });
    ran.get_future().wait();
  }
}

/// Returns once so many callers wait, and the first of them has been denied.
inline void await_waiting(Store& store, const Limit& limit, std::size_t count) {
  while (waiting_callers(store, limit) != count) std::this_thread::yield();
  pass_timer_thread();
}

}  // namespace sluice

#pragma once

#include <future>

#include "net/event_loop.h"

namespace sluice {

/// Runs `work` on the thread of a loop that runs, and waits for it.
template <class Work>
void run_on_loop(EventLoop& loop, Work& work) {
  std::promise<void> done;
  loop.post([&] {
    work();
    done.set_value();
  });
  done.get_future().get();
}

}  // namespace sluice

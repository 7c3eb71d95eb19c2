#pragma once

#include <cstddef>
#include <functional>
#include <latch>
#include <thread>
#include <vector>

namespace sluice {

/// Calls `work` on so many threads, which begin at the same time, each with its number from 0 on.
/// Returns when all of them have ended.
inline void on_threads(std::size_t count, const std::function<void(std::size_t thread)>& work) {
  std::latch start(static_cast<std::ptrdiff_t>(count));
  std::vector<std::jthread> threads;
  for (std::size_t thread = 0; thread < count; ++thread) {
    threads.emplace_back([&, thread] {
      start.arrive_and_wait();
      work(thread);
    });
  }
}

}  // namespace sluice

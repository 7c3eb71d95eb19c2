#include "core/lock.h"

#include <chrono>
#include <thread>

namespace sluice {

void Lock::wait() {
  constexpr int kSpins = 100;
  constexpr int kYields = 4;
  for (int round = 0;; ++round) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (try_lock()) return;
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
    // The holder has probably lost its core, or a shard is growing.
    if (round < kYields) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace sluice

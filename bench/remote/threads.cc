#include "remote/threads.h"

#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>

namespace sluice::bench {

void Threads::run(std::uint64_t decisions_per_caller) {
  std::mutex mutex;
  std::string error;  // Guarded by mutex.
  {
    std::vector<std::jthread> threads;
    threads.reserve(callers_.size());
    for (const Ask& ask : callers_) {
      threads.emplace_back([&] {
        try {
          for (std::uint64_t i = 0; i < decisions_per_caller; ++i) ask();
        } catch (const std::exception& exception) {
          const std::lock_guard lock(mutex);
          error = exception.what();
        }
      });
    }
  }
  if (!error.empty()) throw std::runtime_error(error);
}

}  // namespace sluice::bench

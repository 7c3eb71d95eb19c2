// Six attempts to log in from one address; five in ten minutes are allowed. To build without CMake:
//   g++ -std=c++20 -O2 main.cc -o login $(pkg-config --cflags --libs sluice)
#include <chrono>
#include <cstdio>
#include <exception>
#include <thread>

#include "sluice/sluice.h"

int main() {
  try {
    const auto store = sluice::open_store("memory:");
    sluice::Limiter login(store, sluice::Limit("sliding_log 5/10m", "login"));
    for (int attempt = 1; attempt <= 6; ++attempt) {
      const sluice::Decision decision = login.check("203.0.113.7");
      if (decision.allowed) {
        std::this_thread::sleep_for(decision.delay);  // Above 0 only for a leaky_bucket.
        std::printf("%d: go ahead, %lld left\n", attempt,
                    static_cast<long long>(decision.remaining));
      } else {
        const auto wait = std::chrono::ceil<std::chrono::minutes>(decision.retry_after);
        std::printf("%d: not now, in %lld minutes\n", attempt,
                    static_cast<long long>(wait.count()));
      }
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "login: %s\n", error.what());
    return 1;
  }
}

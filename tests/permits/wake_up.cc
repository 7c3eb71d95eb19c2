#include "permits/wake_up.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <thread>
#include <vector>

namespace sluice::permits {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

constexpr seconds kPatience{30};

Delays of(std::vector<nanoseconds> delays) {
  std::ranges::sort(delays);
  return {.least = delays.front(), .median = delays[delays.size() / 2]};
}

}  // namespace

Delays wake_up_by_release(ConcurrencyLimiter& jobs, int rounds, nanoseconds job) {
  std::vector<nanoseconds> delays;
  for (int i = 0; i < rounds; ++i) {
    Permit held = jobs.acquire("k", kPatience);
    EXPECT_TRUE(held);
    steady_clock::time_point granted;
    steady_clock::time_point released;
    {
      const std::jthread waiter([&] {
        const Permit permit = jobs.acquire("k", kPatience);
        granted = steady_clock::now();
        EXPECT_TRUE(permit);
      });
      std::this_thread::sleep_for(job);
      released = steady_clock::now();
      held.release();
    }
    delays.push_back(granted - released);
  }
  return of(std::move(delays));
}

Delays wake_up_by_refund(Limiter& limiter, int rounds) {
  std::vector<nanoseconds> delays;
  for (int i = 0; i < rounds; ++i) {
    const std::string key = std::to_string(i);
    EXPECT_TRUE(limiter.check(key).allowed);
    std::promise<steady_clock::time_point> granted;
    std::stop_source stop;
    limiter.async_acquire(
        key, 1, kForever,
        [&](const Decision& decision, std::exception_ptr) {
          EXPECT_TRUE(decision.allowed) << "round " << i;
          granted.set_value(steady_clock::now());
        },
        stop.get_token());
    std::this_thread::sleep_for(i % 2 == 0 ? microseconds(20 * i) : milliseconds(20));
    const auto began = steady_clock::now();
    limiter.refund(key, 1);
    auto when = granted.get_future();
    if (when.wait_for(kPatience) != std::future_status::ready) stop.request_stop();
    delays.push_back(when.get() - began);
  }
  return of(std::move(delays));
}

}  // namespace sluice::permits

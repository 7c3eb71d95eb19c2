#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>

#include "permits/holder.h"
#include "servers/each_server.h"
#include "sluice/sluice.h"
#include "testing/waiting_callers.h"

namespace sluice::permits {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using std::chrono::steady_clock;

/// Callers that wait for units, on a real server.
class UnitsTest : public servers::OnEachServer {
 protected:
  std::shared_ptr<Store> store_ = open_store(patient_url(*server_));
};

TEST_P(UnitsTest, EachWaitsUntilTheLimitHasIt) {
  for (const char* expression :
       {"token_bucket 1/100ms", "leaky_bucket 1/100ms queue=5", "fixed_window 1/100ms",
        "sliding_log 1/100ms", "sliding_window 1/100ms", "sliding_counter 1/100ms",
        "token_bucket 1/1ms & sliding_log 1/100ms", "token_bucket 1/100ms & fixed_window 100/1h",
        "fixed_window 1/50ms & sliding_log 2/200ms"}) {
    SCOPED_TRACE(expression);
    Limiter limiter(store_, Limit(expression));
    const auto began = steady_clock::now();
    for (int i = 0; i < 4; ++i) EXPECT_TRUE(limiter.acquire("k", 1, seconds(20)).allowed);
    // Two whole windows, less a little, since the store's clock may run faster.
    EXPECT_GE(steady_clock::now() - began, milliseconds(195));
  }
}

TEST_P(UnitsTest, NoCallerWaitsInVain) {
  for (const char* expression :
       {"sliding_log 1/1h", "token_bucket 1/1h", "token_bucket 1/1ms & sliding_log 1/1h"}) {
    SCOPED_TRACE(expression);
    Limiter limiter(store_, Limit(expression));
    EXPECT_TRUE(limiter.acquire("k", 1, seconds(20)).allowed);
    const auto began = steady_clock::now();
    const Decision denied = limiter.acquire("k", 1, seconds(20));
    EXPECT_LT(steady_clock::now() - began, seconds(10)) << "at once";
    EXPECT_FALSE(denied.allowed);
    EXPECT_GT(denied.retry_after, hours(1) - seconds(60));
  }
}

TEST_P(UnitsTest, ARefundWakesTheFirstInTheQueue) {
  for (const char* expression : {"sliding_log 1/1h", "token_bucket 1/1ms & sliding_log 1/1h"}) {
    SCOPED_TRACE(expression);
    const Limit limit(expression);
    Limiter limiter(store_, limit);
    EXPECT_TRUE(limiter.check("k").allowed);
    std::promise<bool> granted;
    auto later = granted.get_future();
    limiter.async_acquire("k", 1, hours(2), [&](const Decision& decision, std::exception_ptr) {
      granted.set_value(decision.allowed);
    });
    await_waiting(*store_, limit, 1);
    limiter.refund("k", 1);
    ASSERT_EQ(later.wait_for(seconds(20)), std::future_status::ready);
    EXPECT_TRUE(later.get());
    EXPECT_EQ(limiter.peek("k").remaining, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(EveryServer, UnitsTest, servers::kEachServer, servers::name_of);

}  // namespace
}  // namespace sluice::permits

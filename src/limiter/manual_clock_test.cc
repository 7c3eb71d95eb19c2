#include "sluice/manual_clock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <utility>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/permit.h"
#include "sluice/recipes.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

class ManualClockTest : public testing::Test {
 protected:
  Limiter limiter(const char* expression) { return Limiter(store_, Limit(expression)); }

  /// Starts a thread, and returns when it waits by the clock.
  template <class Wait>
  auto waiting(Wait wait) {
    auto result = std::async(std::launch::async, wait);
    clock_.await_waiting(1);
    return result;
  }

  /// A caller comes, and does not block. Once it is granted, told_ has its number; once it is
  /// denied, the negative number.
  void come(Limiter& limiter, std::int64_t cost, std::chrono::nanoseconds patience,
            int number = 1) {
    limiter.async_acquire("k", cost, patience,
                          [this, number](const Decision& decision, const std::exception_ptr&) {
                            told_.push_back(decision.allowed ? number : -number);
                          });
    clock_.advance(0ns);
  }

  std::vector<int> told_;
  ManualClock clock_;
  std::shared_ptr<Store> store_ = open_store("memory:", clock_);
};

TEST_F(ManualClockTest, StandsStillUntilItIsAdvanced) {
  const auto began = clock_.now();
  EXPECT_EQ(began.time_since_epoch() % 24h, 0ns);
  Limiter login = limiter("fixed_window 1/1h");
  EXPECT_TRUE(login.check("bob"));
  clock_.advance(59min);
  EXPECT_EQ(login.check("bob").retry_after, 1min);
  clock_.advance(1min);
  EXPECT_TRUE(login.check("bob"));
  EXPECT_EQ(clock_.now() - began, 1h);
}

TEST_F(ManualClockTest, IsThatOfAllStoresThatAreOpenedWithIt) {
  Limiter one = limiter("fixed_window 1/1h");
  Limiter other(open_store("memory:?max_bytes=1048576", clock_), Limit("fixed_window 1/1h"));
  clock_.advance(30min);
  EXPECT_EQ(one.check("k").reset_after, 30min);
  EXPECT_EQ(other.check("k").reset_after, 30min);
}

TEST_F(ManualClockTest, CallbacksHaveBeenCalledWhenTheTimeHasPassed) {
  Limiter limiter = this->limiter("fixed_window 1/1h");
  limiter.check("k");
  come(limiter, 1, kForever, 1);
  come(limiter, 1, kForever, 2);
  come(limiter, 1, 90min, 3);
  clock_.advance(1h - 1ns);
  EXPECT_THAT(told_, IsEmpty());
  clock_.advance(1ns);
  EXPECT_THAT(told_, ElementsAre(1));
  clock_.advance(2h);
  EXPECT_THAT(told_, ElementsAre(1, -3, 2)) << "each at its own instant";
}

// Alone, each of them would be admitted.
TEST_F(ManualClockTest, AllCallersTryWhoseTimeoutsEndWithTheWindow) {
  for (const char* expression : {"fixed_window 3/1h", "sliding_log 3/1h"}) {
    SCOPED_TRACE(expression);
    told_.clear();
    Limiter limiter = this->limiter(expression);
    limiter.check("k", 3);
    const auto wait = limiter.acquire("k", 3, 0ns).retry_after;
    for (int i = 0; i < 2; ++i) come(limiter, 1, wait);
    come(limiter, 1, kForever);
    come(limiter, 2, wait);
    clock_.advance(wait - 1ns);
    EXPECT_THAT(told_, IsEmpty());
    clock_.advance(1ns);
    EXPECT_THAT(told_, ElementsAre(1, 1, 1, -1));
  }

  told_.clear();
  Limiter limiter = this->limiter("fixed_window 3/2h");
  limiter.check("k", 3);
  const auto wait = limiter.peek("k").reset_after;
  come(limiter, 3, kForever);
  come(limiter, 1, kForever);
  for (int i = 0; i < 3; ++i) come(limiter, 1, wait);
  clock_.advance(wait);
  EXPECT_THAT(told_, ElementsAre(1, -1, -1, -1)) << "the second waits on, and they do not overtake";
  clock_.advance(2h);
  EXPECT_THAT(told_, ElementsAre(1, -1, -1, -1, 1));
}

TEST_F(ManualClockTest, AllCallersTryWhoseTimeoutsEndWithTheLeases) {
  ConcurrencyLimiter limiter(store_, Limit("concurrency 2 lease=60s"));
  for (int i = 0; i < 2; ++i) limiter.try_acquire("k").ignore();
  std::vector<Permit> permits;
  for (int i = 0; i < 3; ++i) {
    limiter.async_acquire(
        "k", 60s, [&](Permit permit, std::exception_ptr) { permits.push_back(std::move(permit)); });
    clock_.advance(0ns);
  }
  clock_.advance(60s);
  ASSERT_EQ(permits.size(), 3U);
  EXPECT_TRUE(permits[0] && permits[1]);
  EXPECT_FALSE(permits[2]);
  EXPECT_EQ(permits[2].decision().ended, Ended::kTimedOut);
}

TEST_F(ManualClockTest, ReservedUnitsAreWaitedFor) {
  Limiter limiter = this->limiter("token_bucket 1/1m");
  limiter.check("k");
  come(limiter, 1, kForever);
  clock_.advance(1min - 1ns);
  EXPECT_THAT(told_, IsEmpty());
  clock_.advance(1ns);
  EXPECT_THAT(told_, ElementsAre(1));

  auto blocked = waiting([&] { return limiter.acquire("k"); });
  clock_.advance(1min);
  EXPECT_EQ(blocked.get().delay, 1min);
}

/// The callback of a caller that waits may destroy the store: no other share of it is left then.
class ManualClockSharesTest : public ManualClockTest {
 protected:
  /// A caller waits, its limiter is destroyed, and `happens` ends the wait.
  void expect_no_share(const char* expression, const std::function<void()>& happens,
                       std::stop_token stop = {}) {
    const long shares = store_.use_count();
    auto limiter = std::make_optional<Limiter>(store_, Limit(expression));
    limiter->charge("k", 1);
    long shares_then = 0;
    const auto callback = [&](const Decision&, std::exception_ptr) {
      shares_then = store_.use_count();
    };
    limiter->async_acquire("k", 1, kForever, callback, std::move(stop));
    limiter.reset();
    clock_.advance(1s);
    happens();
    clock_.advance(0s);
    EXPECT_EQ(shares_then, shares) << expression;
  }
};

TEST_F(ManualClockSharesTest, NoneIsLeftWhenTheWaitEnds) {
  for (const char* expression : {"token_bucket 1/1m", "fixed_window 1/1m"}) {
    expect_no_share(expression, [&] { clock_.advance(1h); });
    std::stop_source stop;
    const auto stops = [&] { stop.request_stop(); };
    expect_no_share(expression, stops, stop.get_token());
    Limiter other = limiter(expression);
    expect_no_share(expression, [&] { other.reset("k"); });
  }
}

TEST_F(ManualClockTest, ReservationsAreWaitedFor) {
  Limiter limiter = this->limiter("token_bucket 1/1m");
  limiter.check("k");
  Reservation reservation = limiter.reserve("k");
  EXPECT_EQ(reservation.delay(), 1min);
  clock_.advance(20s);
  EXPECT_EQ(reservation.delay(), 40s);
  auto waited = waiting([&] { return reservation.wait(); });
  clock_.advance(40s);
  EXPECT_TRUE(waited.get());
  reservation.commit(1);
  EXPECT_TRUE(reservation.wait()) << "at once";
}

TEST_F(ManualClockTest, AThreadWaitsAsOftenAsItIsDenied) {
  Limiter limiter = this->limiter("fixed_window 1/1h");
  limiter.check("k");
  int passed = 0;
  auto worker = waiting([&] {
    for (; passed < 3; ++passed) limiter.acquire("k");
  });
  for (int hour = 0; hour < 3; ++hour) {
    clock_.await_waiting(1);
    EXPECT_EQ(passed, hour);
    clock_.advance(1h);
  }
  worker.get();
}

TEST_F(ManualClockTest, SeveralLimitsAreWaitedFor) {
  Limiter window = limiter("fixed_window 1/1h");
  Limiter bucket = limiter("token_bucket 1/100m");
  const auto both = [&] { return acquire_all({{window, "k"}, {bucket, "k"}}); };
  both();
  auto acquired = waiting(both);
  clock_.advance(1h);
  clock_.await_waiting(1);  // For the bucket.
  clock_.advance(40min);
  EXPECT_EQ(acquired.get().delay, 40min);
}

TEST_F(ManualClockTest, AThreadThatIsStoppedWaitsNoLonger) {
  Limiter limiter = this->limiter("token_bucket 1/1m");
  limiter.check("k");
  std::stop_source stop;
  auto stopped = waiting([&] { return limiter.acquire("k", 1, kForever, stop.get_token()); });
  stop.request_stop();
  EXPECT_EQ(stopped.get().ended, Ended::kStopped);
  auto next = waiting([&] { return limiter.acquire("k"); });
  clock_.advance(1min);
  EXPECT_TRUE(next.get().allowed);
}

TEST_F(ManualClockTest, PermitsAreRenewedByIt) {
  ConcurrencyLimiter limiter(store_, Limit("concurrency 1 lease=1m"));
  std::optional<Permit> held = limiter.try_acquire("k");
  std::optional<bool> granted;
  limiter.async_acquire("k", 10min, [&](const Permit& permit, std::exception_ptr) {
    granted = permit.decision().allowed;
  });
  clock_.advance(9min);
  EXPECT_TRUE(held->held());
  EXPECT_EQ(granted, std::nullopt);
  held.reset();
  clock_.advance(0ns);
  EXPECT_EQ(granted, true);
}

TEST_F(ManualClockTest, AThrottledFunctionRunsByIt) {
  const auto throttled = [&] {
    return throttle(store_, "mail").allow(1).every(1h).block(2h).then([] { return 7; });
  };
  throttled();
  auto second = waiting(throttled);
  clock_.advance(1h);
  EXPECT_EQ(second.get(), 7);
}

TEST_F(ManualClockTest, KeysThatCountByItAreNotForgottenForLimits) {
  const auto store = open_store("memory:?max_bytes=1048576", clock_);
  Limiter first(store, Limit("fixed_window 1/1d", "first"));
  first.check("k");
  std::vector<Limiter> others;
  const auto error = error_of([&] {
    for (int i = 0; i < 20'000; ++i) {
      others.emplace_back(store, Limit("fixed_window 1/1d", std::to_string(i)));
    }
  });
  EXPECT_THAT(error, HasSubstr("there is no room for another limit"));
  EXPECT_FALSE(first.check("k").allowed);
  others.clear();
  clock_.advance(24h);
  EXPECT_TRUE(first.check("k").allowed);
}

TEST_F(ManualClockTest, RefusesWhatItCannotDo) {
  EXPECT_THROW(clock_.advance(-1ns), std::invalid_argument);
  EXPECT_THROW(clock_.advance(24h * 40'000), std::invalid_argument);
  EXPECT_THAT(error_of([&] { open_store("redis://127.0.0.1", clock_); }),
              HasSubstr("only a memory store goes by a manual clock"));
}

TEST(ManualClock, MayBeDestroyedBeforeItsStores) {
  auto clock = std::make_unique<ManualClock>();
  Limiter limiter(open_store("memory:", *clock), Limit("fixed_window 1/1h"));
  clock->advance(30min);
  clock.reset();
  EXPECT_EQ(limiter.check("k").reset_after, 30min);
}

}  // namespace
}  // namespace sluice

#include "sluice/recipes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>

#include "sluice/health.h"
#include "sluice/manual_clock.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

class RecipesTest : public testing::Test {
 protected:
  std::shared_ptr<Store> store_ = open_store("memory:");
};

TEST_F(RecipesTest, ThrottleRunsAsOftenAsAllowed) {
  int runs = 0;
  int refusals = 0;
  for (int i = 0; i < 5; ++i) {
    throttle(store_, "sms").allow(3).every(hours(1)).then([&] { ++runs; }, [&] { ++refusals; });
  }
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(refusals, 2);
  EXPECT_EQ(throttle(store_, "mail").allow(3).every(hours(1)).then([] { return 7; }), 7)
      << "another name, another count";
}

TEST_F(RecipesTest, ThrottleIsTheLimitItSays) {
  throttle(store_, "sms").allow(3).every(hours(1)).then([] {});
  Limiter limiter(store_, Limit("fixed_window 3/1h anchor=first", "throttle.3600000000000"));
  EXPECT_EQ(limiter.peek("sms").remaining, 2);
}

TEST_F(RecipesTest, ThrottleGoesOnWithAnotherCount) {
  throttle(store_, "sms").allow(2).every(hours(1)).then([] {});
  const auto remaining = [](const Decision& decision) { return decision.remaining; };
  EXPECT_EQ(throttle(store_, "sms").allow(5).every(hours(1)).then(remaining), 3);
  EXPECT_THROW(throttle(store_, "sms").allow(2).every(hours(1)).then(remaining), LimitExceeded);
  EXPECT_EQ(throttle(store_, "sms").allow(2).every(hours(2)).then(remaining), 1)
      << "another window starts fresh";
}

// A full store forgets keys that do not deny: each is judged by its own count.
TEST(Recipes, AThrottleIsNotForgottenForOthersWithMoreRuns) {
  ManualClock clock;
  const auto store = open_store("memory:?max_bytes=1048576", clock);
  const auto take = [&](const std::string& name, std::int64_t runs) {
    return throttle(store, name)
        .allow(runs)
        .every(hours(1))
        .then([] { return true; }, [] { return false; });
  };
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(take("sms" + std::to_string(i), 1));
  clock.advance(seconds(1));
  for (int i = 0; i < 50'000; ++i) take("mail" + std::to_string(i), 1'000);
  EXPECT_GT(health(*store).evicted, 0U);
  for (int i = 0; i < 100; ++i) {
    const std::string name = "sms" + std::to_string(i);
    EXPECT_TRUE(take(name, 2));
    EXPECT_FALSE(take(name, 2)) << name << " was forgotten";
  }
}

TEST_F(RecipesTest, ThrottleReturnsWhatTheyReturn) {
  auto once = throttle(store_, "sms").allow(1).every(hours(1));
  const auto run = [] { return std::string("sent"); };
  EXPECT_EQ(once.then(run, [] { return "refused"; }), "sent");
  EXPECT_EQ(once.then(run, [] { return "refused"; }), "refused");
  EXPECT_EQ(once.then(run,
                      [](const Decision& decision) {
                        return "wait " + std::to_string(decision.retry_after > seconds(3000));
                      }),
            "wait 1");
}

TEST_F(RecipesTest, ThrottleThrowsWhereThereIsNothingToCallInstead) {
  auto once = throttle(store_, "sms").allow(1).every(hours(1));
  once.then([] {});
  try {
    once.then([] {});
    FAIL() << "it ran";
  } catch (const LimitExceeded& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'sms'"), HasSubstr("1/1h"), HasSubstr("try again")));
    EXPECT_GT(error.decision().retry_after, seconds(3000));
  }
}

TEST_F(RecipesTest, ANameIsQuotedWithoutItsControlCharacters) {
  auto once = throttle(store_, "a\nb" + std::string(3'000, 'x')).every(hours(1));
  once.then([] {});
  const std::string error = error_of<LimitExceeded>([&] { once.then([] {}); });
  EXPECT_TRUE(error.starts_with("'a\\x0abxxx")) << error;
  EXPECT_LT(error.size(), 200U);
}

TEST_F(RecipesTest, RefuseNumbersOutOfRangeAndNoStore) {
  EXPECT_THROW(throttle(nullptr, "sms").then([] {}), std::invalid_argument);
  EXPECT_THROW(funnel(nullptr, "jobs").then([] {}), std::invalid_argument);
  EXPECT_THROW(throttle(store_, "sms").allow(0).then([] {}), InvalidLimit);
  EXPECT_THROW(throttle(store_, "sms").every(seconds(0)).then([] {}), InvalidLimit);
  EXPECT_THROW(throttle(store_, "sms").every(seconds(-1)).then([] {}), InvalidLimit);
  EXPECT_THROW(throttle(store_, "sms").block(seconds(-1)).then([] {}), std::invalid_argument);
  EXPECT_THROW(funnel(store_, "jobs").limit(65'537).then([] {}), InvalidLimit);
  EXPECT_THROW(funnel(store_, "jobs").release_after(seconds(0)).then([] {}), InvalidLimit);
}

TEST_F(RecipesTest, FunnelLetsSoManyInAtATime) {
  auto two = [this] { return funnel(store_, "reports").limit(2); };
  const std::string ran = two().then([&] {
    return two().then([&] {
      return two().then([] { return std::string("third"); },
                        [](const Decision& decision) {
                          return decision.retry_after > seconds(0) ? "two" : "none";
                        });
    });
  });
  EXPECT_EQ(ran, "two");
  EXPECT_EQ(two().then([] { return 1; }), 1) << "all have given their places back";
}

TEST_F(RecipesTest, FunnelIsTheLimitItSays) {
  funnel(store_, "reports").limit(3).release_after(seconds(5)).then([&] {
    ConcurrencyLimiter limiter(store_, Limit("concurrency 3 lease=5s", "funnel"));
    EXPECT_EQ(limiter.peek("reports").remaining, 2);
  });
}

TEST_F(RecipesTest, FunnelGoesOnWithOtherNumbers) {
  funnel(store_, "reports").limit(1).then([&] {
    const auto ran = [] { return true; };
    EXPECT_THROW(funnel(store_, "reports").limit(1).release_after(seconds(5)).then(ran),
                 LimitExceeded);
    EXPECT_TRUE(funnel(store_, "reports").limit(2).release_after(seconds(5)).then(ran));
  });
}

TEST_F(RecipesTest, FunnelStartsNoThreadForACall) {
  const auto threads = [] {
    std::set<std::string> ids;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      ids.insert(entry.path().filename());
    }
    return ids;
  };
  funnel(store_, "reports").then([] {});
  const auto before = threads();
  for (int i = 0; i < 2'000; ++i) {
    funnel(store_, "reports").then([&] { ASSERT_THAT(threads(), testing::IsSubsetOf(before)); });
  }
}

TEST_F(RecipesTest, FunnelGivesThePlaceBackWhereTheRunThrows) {
  auto one = [this] { return funnel(store_, "reports"); };
  EXPECT_THROW(one().then([] { throw std::runtime_error("no"); }), std::runtime_error);
  one().then([&](Permit& permit) {
    EXPECT_TRUE(permit.held());
    EXPECT_THROW(one().then([] {}), LimitExceeded);
  });
}

TEST_F(RecipesTest, FunnelWaitsForAPlace) {
  auto ignored = funnel(store_, "reports").release_after(milliseconds(20));
  ignored.then([](Permit& permit) { permit.ignore(); });
  int runs = 0;
  funnel(store_, "reports").release_after(milliseconds(20)).block(seconds(60)).then([&] {
    ++runs;
  });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace sluice

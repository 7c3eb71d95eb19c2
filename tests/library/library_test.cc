#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

#include "limiters.h"
#include "testing/error_of.h"
#include "testing/on_threads.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Library, ChecksUntilTheLimitIsSpent) {
  Limiter limiter = make_limiter();
  for (int left = 4; left >= 0; --left) {
    const Decision decision = limiter.check("a");
    EXPECT_TRUE(decision.allowed);
    EXPECT_EQ(decision.source, Source::kStore);
    EXPECT_EQ(decision.limit, 5);
    EXPECT_EQ(decision.remaining, left);
    EXPECT_EQ(decision.retry_after, nanoseconds(0));
    EXPECT_EQ(decision.delay, nanoseconds(0));
  }
  const Decision denied = limiter.check("a");
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.remaining, 0);
  EXPECT_GT(denied.retry_after, nanoseconds(0));
  EXPECT_LE(denied.retry_after, kWeek);
  EXPECT_GE(denied.reset_after, denied.retry_after);
  EXPECT_TRUE(limiter.check("b").allowed) << "another key has a quota of its own";
}

TEST(Library, TakesSeveralUnitsOrNone) {
  Limiter limiter = make_limiter();
  EXPECT_EQ(limiter.check("a", 3).remaining, 2);
  EXPECT_FALSE(limiter.check("a", 3).allowed);
  EXPECT_EQ(limiter.check("a", 2).remaining, 0) << "the denied request changed nothing";
  const Decision never = limiter.check("b", 6);
  EXPECT_FALSE(never.allowed);
  EXPECT_EQ(never.retry_after, kNever);
  EXPECT_FALSE(limiter.check("b", std::numeric_limits<std::int64_t>::max()).allowed);
  EXPECT_EQ(limiter.peek("b").remaining, 5);
}

TEST(Library, TakesAnyBytesAsAKey) {
  Limiter limiter = make_limiter();
  const std::string zeros(2, '\0');
  EXPECT_EQ(limiter.check("").remaining, 4);
  EXPECT_EQ(limiter.check(std::string_view(zeros).substr(0, 1)).remaining, 4);
  EXPECT_EQ(limiter.check(zeros).remaining, 4);
  EXPECT_EQ(limiter.check("").remaining, 3);
  EXPECT_EQ(limiter.check(std::string(100'000, 'k')).remaining, 4);
}

TEST(Library, PeeksWithoutTaking) {
  Limiter limiter = make_limiter();
  const Decision fresh = limiter.peek("a");
  EXPECT_TRUE(fresh.allowed);
  EXPECT_EQ(fresh.remaining, 5);
  EXPECT_EQ(fresh.reset_after, nanoseconds(0));
  limiter.check("a", 5);
  for (int i = 0; i < 3; ++i) {
    const Decision spent = limiter.peek("a");
    EXPECT_TRUE(spent.allowed);
    EXPECT_EQ(spent.remaining, 0);
    EXPECT_GT(spent.reset_after, nanoseconds(0));
  }
}

TEST(Library, ResetsOneKey) {
  Limiter limiter = make_limiter();
  limiter.check("a", 5);
  limiter.check("b", 5);
  limiter.reset("a");
  EXPECT_EQ(limiter.peek("a").remaining, 5);
  EXPECT_EQ(limiter.peek("b").remaining, 0);
  limiter.reset("never seen");
  EXPECT_EQ(limiter.peek("never seen").remaining, 5);
}

TEST(Library, RefusesANegativeCost) {
  Limiter limiter = make_limiter();
  for (const std::int64_t cost : {std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(error_of<std::invalid_argument>([&] { limiter.check("a", cost); }),
              "a cost is at least 0, not " + std::to_string(cost));
  }
  EXPECT_EQ(limiter.peek("a").remaining, 5);
}

TEST(Library, TakesFromAllPartsOrNone) {
  Limiter limiter = make_limiter("sliding_log 5/1w & sliding_log 3/2w");
  EXPECT_EQ(limiter.check("a", 3).remaining, 0);
  EXPECT_FALSE(limiter.check("a").allowed);
  limiter.reset("a");
  EXPECT_EQ(limiter.peek("a").remaining, 3);
}

TEST(Library, LimitersOfOneNameShareTheirKeys) {
  const auto store = open_store("memory:");
  Limiter first(store, Limit(kFivePerWeek, "login"));
  Limiter second(store, Limit(kFivePerWeek, "login"));
  Limiter other(store, Limit(kFivePerWeek, "codes"));
  first.check("a", 2);
  EXPECT_EQ(second.check("a", 2).remaining, 1);
  EXPECT_EQ(first.peek("a").remaining, 1);
  EXPECT_EQ(other.peek("a").remaining, 5);
  EXPECT_EQ(make_limiter(kFivePerWeek, "login").peek("a").remaining, 5)
      << "another store knows nothing of it";
}

TEST(Library, LimitersOfOneUnnamedExpressionShareTheirKeys) {
  const auto store = open_store("memory:");
  Limiter week(store, Limit("sliding_log 5/1w"));
  Limiter days(store, Limit("sliding_log  5/7d"));
  week.check("a", 2);
  EXPECT_EQ(days.peek("a").remaining, 3);
}

TEST(Library, AMovedLimiterWorks) {
  Limiter first = make_limiter();
  first.check("a", 2);
  Limiter second = std::move(first);
  EXPECT_EQ(second.check("a").remaining, 2);
  EXPECT_EQ(second.limit().expression(), kFivePerWeek);

  Limiter third = make_limiter("fixed_window 9/1w anchor=first");
  third = std::move(second);
  EXPECT_EQ(third.check("a").remaining, 1);
  EXPECT_EQ(third.limit().expression(), kFivePerWeek);
}

TEST(Library, ALimiterKeepsItsStore) {
  auto store = open_store("memory:");
  Limiter limiter(store, Limit(kFivePerWeek));
  store.reset();
  EXPECT_EQ(limiter.check("a").remaining, 4);
}

TEST(Library, ThreadsNeverAdmitMoreThanTheLimit) {
  Limiter limiter = make_limiter("sliding_log 1000/1w");
  std::atomic<int> admitted = 0;
  on_threads(4, [&](std::size_t) {
    for (int i = 0; i < 500; ++i) admitted += limiter.check("a").allowed ? 1 : 0;
  });
  EXPECT_EQ(admitted, 1000);
}

TEST(Library, SaysWhyAStoreCannotBeOpened) {
  struct Wrong {
    const char* url;
    const char* fault;
  };
  for (const auto& wrong : {Wrong{"", "scheme:"},
                            {"memory", "scheme:"},
                            {"attic:", "there is no such store"},
                            {"memory:x", "nothing can follow"},
                            {"memory:?max_bytes=1", "max_bytes is a whole number from 1048576"},
                            {"memory:?full=maybe", "full is deny or allow"},
                            {"memory:?on_failure=deny", "there is no option 'on_failure'"},
                            {"memory:?size=1", "there is no option 'size'"}}) {
    EXPECT_THAT(error_of([&] { open_store(wrong.url); }),
                AllOf(StartsWith("store"), HasSubstr(wrong.fault)));
  }
}

TEST(Library, SaysWhereALimitIsWrong) {
  try {
    const Limit wrong("sliding_log 5/10x");
    FAIL() << "it was read";
  } catch (const InvalidLimit& error) {
    EXPECT_EQ(error.position(), 16U);
    EXPECT_THAT(error.what(), HasSubstr("sliding_log 5/10x"));
  }
}

}  // namespace
}  // namespace sluice

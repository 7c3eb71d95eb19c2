#include "algorithms/fixed_window/fixed_window.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<FixedWindow>;
using std::chrono::nanoseconds;

static_assert(sizeof(FixedWindow::State) == 16);

constexpr const char* kClock = "fixed_window 5/1m";
constexpr const char* kFirst = "fixed_window 5/1m anchor=first";

TEST(FixedWindowTest, TheExtremesOfADefinitionDoNotOverflow) {
  const Instant late = kEndOfTime - 1;
  Key widest("fixed_window 9007199254740991/2305843009213693952ns anchor=first");
  EXPECT_EQ(widest.take({.now = late, .cost = kMaxCount}),
            admit({.limit = kMaxCount, .reset_ns = kMaxDurationNs}));
  EXPECT_EQ(widest.take({.now = 0}).retry_after, nanoseconds(late + kMaxDurationNs));
  Key narrowest("fixed_window 1/1ns");
  EXPECT_TRUE(narrowest.take({.now = late - 1}).allowed);
  EXPECT_EQ(narrowest.take({.now = late}), admit({.limit = 1, .reset_ns = 1}));
}

TEST(FixedWindowTest, PacksIfWindowNumberAndCountFit) {
  const Key minute(kClock);
  const std::int64_t most = (std::int64_t{1} << 36) - 1;
  const FixedWindow::State state{1'000 * kMinuteNs, most};
  const auto word = FixedWindow::pack(minute.params(), state);
  ASSERT_TRUE(word);
  EXPECT_EQ(*word >> 63, 0U);
  const auto unpacked = FixedWindow::unpack(minute.params(), *word);
  EXPECT_EQ(unpacked.start_ns, state.start_ns);
  EXPECT_EQ(unpacked.count, most);
  EXPECT_FALSE(FixedWindow::pack(minute.params(), {0, most + 1}));

  const Key first(kFirst);
  EXPECT_FALSE(FixedWindow::pack(first.params(), {0, 1}));
}

TEST(FixedWindowTest, PacksTheLastWindowOfEveryLength) {
  for (const char* expression :
       {"fixed_window 1/1ns", "fixed_window 1/3ns", "fixed_window 1/1s", "fixed_window 1/1w",
        "fixed_window 1/2305843009213693951ns", "fixed_window 1/2305843009213693952ns"}) {
    const Key key(expression);
    const std::int64_t window_ns = key.params().window_ns();
    const FixedWindow::State last{(kEndOfTime - 1) / window_ns * window_ns, 1};
    const auto word = FixedWindow::pack(key.params(), last);
    ASSERT_TRUE(word) << expression;
    EXPECT_EQ(*word >> 63, 0U) << expression;
    EXPECT_EQ(FixedWindow::unpack(key.params(), *word).start_ns, last.start_ns) << expression;
    EXPECT_EQ(FixedWindow::unpack(key.params(), *word).count, 1) << expression;
    EXPECT_EQ(FixedWindow::unpack(key.params(), 0).count, 0) << expression;
  }
}

TEST(FixedWindowTest, AChargeStopsAtTheLargestCount) {
  Key key("fixed_window 5/10s");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(key.charge({.now = 0, .cost = kMaxInt64}).remaining, 0);
  EXPECT_EQ(key.state().count, kMaxCount);
  EXPECT_EQ(key.refund({.now = 0, .cost = kMaxCount - 4}).remaining, 1);
}

}  // namespace
}  // namespace sluice

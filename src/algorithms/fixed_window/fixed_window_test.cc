#include "algorithms/fixed_window/fixed_window.h"

#include <gtest/gtest.h>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<FixedWindow>;

static_assert(sizeof(FixedWindow::State) == 16);

TEST(FixedWindowTest, PacksIfWindowNumberAndCountFit) {
  const Key minute("fixed_window 5/1m");
  const std::int64_t most = (std::int64_t{1} << 36) - 1;
  const FixedWindow::State state{1'000 * kMinuteNs, most};
  const auto word = FixedWindow::pack(minute.params(), state);
  ASSERT_TRUE(word);
  EXPECT_EQ(*word >> 63, 0U);
  const auto unpacked = FixedWindow::unpack(minute.params(), *word);
  EXPECT_EQ(unpacked.start_ns, state.start_ns);
  EXPECT_EQ(unpacked.count, most);
  EXPECT_FALSE(FixedWindow::pack(minute.params(), {0, most + 1}));

  const Key first("fixed_window 5/1m anchor=first");
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

}  // namespace
}  // namespace sluice

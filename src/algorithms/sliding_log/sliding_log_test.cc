#include "algorithms/sliding_log/sliding_log.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

using Key = AlgorithmKey<SlidingLog>;
using std::chrono::nanoseconds;

static_assert(sizeof(RingEntry) == 16);
static_assert(5 * sizeof(RingEntry) == 80);
static_assert(SlidingLog::kMaxLimit * sizeof(RingEntry) == std::size_t{1} << 20);

constexpr const char* kLogin = "sliding_log 5/10m";

TEST(SlidingLogTest, UnitsOfOneInstantStopCountingTogether) {
  Key key(kLogin);
  key.take({.now = 0, .cost = 2});
  key.take({.now = 0, .cost = 3});
  EXPECT_EQ(key.state().size, 1U);
  EXPECT_EQ(key.take({.now = 0}).retry_after, nanoseconds(10 * kMinuteNs));
  EXPECT_EQ(key.take({.now = 10 * kMinuteNs, .cost = 0}), admit({.limit = 5, .remaining = 5}));
}

TEST(SlidingLogTest, DropsEntriesThatNoLongerCount) {
  Key key(kLogin);
  for (std::int64_t i = 0; i < 100; ++i) {
    EXPECT_TRUE(key.take({.now = i * 2 * kMinuteNs}).allowed);
    EXPECT_LE(key.state().size, 5U);
  }
}

TEST(SlidingLogTest, TotalsMayWrapAround) {
  const RingEntry entries[] = {{.stamp_ns = 10, .total = ~std::uint64_t{0}},
                               {.stamp_ns = 20, .total = 1}};
  // One unit at 10, whose total is the last below 2^64, and two at 20.
  const Ring ring{.slots = entries, .capacity = 2, .size = 2, .base = ~std::uint64_t{0} - 1};
  const SlidingLog::Params params{.limit = 5, .window_ns = 100};
  const Call peek{.now = 20, .cost = 0};
  EXPECT_EQ(SlidingLog::take(params, ring, peek).decision,
            admit({.limit = 5, .remaining = 2, .reset_ns = 100}));
  const Call late_peek{.now = 110, .cost = 0};
  EXPECT_EQ(SlidingLog::take(params, ring, late_peek).decision.remaining, 3);
}

// Charges make entries beyond the limit, up to a bound; then the newest entry takes the charges.
TEST(SlidingLogTest, ChargesMakeABoundedNumberOfEntries) {
  constexpr auto kMost = static_cast<std::uint32_t>(most_entries(5));
  std::vector<RingEntry> slots(kMost);
  for (std::uint32_t i = 0; i < kMost; ++i) slots[i] = {Instant{i} + 1, std::uint64_t{i} + 1};
  const Ring ring{slots.data(), kMost, 0, kMost, 0};
  const SlidingLog::Params params{.limit = 5, .window_ns = kSecondNs};
  const auto step = SlidingLog::charge(params, ring, {.now = kMillisecondNs, .cost = 2});
  EXPECT_EQ(step.next.count, kMost);
  EXPECT_EQ(step.next.newest, (RingEntry{kMillisecondNs, std::uint64_t{kMost} + 2}));
  EXPECT_EQ(step.decision, admit({.limit = 5, .reset_ns = kSecondNs}));
  const auto fewer = SlidingLog::charge(params, ring, {.now = kSecondNs + 1, .cost = 2});
  EXPECT_EQ(fewer.next.first, 1U);
  EXPECT_EQ(fewer.next.count, kMost);
}

}  // namespace
}  // namespace sluice

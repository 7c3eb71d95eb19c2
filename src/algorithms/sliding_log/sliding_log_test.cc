#include "algorithms/sliding_log/sliding_log.h"

#include <gtest/gtest.h>

#include <algorithm>
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

// One unit at each of the minutes 0 to 4.
Key one_a_minute() {
  Key key(kLogin);
  for (std::int64_t minute = 0; minute < 5; ++minute) {
    EXPECT_EQ(key.take({.now = minute * kMinuteNs}),
              admit({.limit = 5, .remaining = 4 - minute, .reset_ns = 10 * kMinuteNs}));
  }
  return key;
}

TEST(SlidingLogTest, WaitsUntilEnoughOfTheOldestStopCounting) {
  struct Row {
    std::int64_t cost;
    std::int64_t retry_ns;
  };
  for (const Row& row : {Row{1, 5 * kMinuteNs}, Row{3, 7 * kMinuteNs}, Row{5, 9 * kMinuteNs},
                         Row{6, kNever.count()}, Row{kMaxInt64, kNever.count()}}) {
    Key key = one_a_minute();
    EXPECT_EQ(key.take({.now = 5 * kMinuteNs, .cost = row.cost}),
              deny({.limit = 5, .retry_ns = row.retry_ns, .reset_ns = 9 * kMinuteNs}));
    if (row.retry_ns == kNever.count()) continue;
    const Instant enough = 5 * kMinuteNs + row.retry_ns;
    EXPECT_EQ(key.take({.now = enough - 1, .cost = row.cost}).retry_after, nanoseconds(1));
    EXPECT_TRUE(key.take({.now = enough, .cost = row.cost}).allowed);
  }
}

TEST(SlidingLogTest, HoldsTheLimitInHalfOpenIntervalsOnly) {
  Key key(kLogin);
  EXPECT_EQ(key.drain(0), 5);
  EXPECT_EQ(key.drain(10 * kMinuteNs - 1), 0);
  EXPECT_EQ(key.drain(10 * kMinuteNs), 5);
}

TEST(SlidingLogTest, NeverAdmitsMoreThanTheLimitWithinTheWindow) {
  Key key("sliding_log 7/100ns");
  std::vector<std::int64_t> admitted_at(1'000, 0);
  for (Instant now = 0; now < 1'000; ++now) {
    const std::int64_t cost = 1 + now % 3;
    const std::int64_t taken = key.take({.now = now, .cost = cost}).allowed ? cost : 0;
    admitted_at[static_cast<std::size_t>(now)] = taken;
    std::int64_t within = 0;
    for (Instant t = std::max<Instant>(0, now - 99); t <= now; ++t) {
      within += admitted_at[static_cast<std::size_t>(t)];
    }
    ASSERT_LE(within, 7) << now;
    // Exact: a denied request would have exceeded the limit.
    ASSERT_TRUE(taken > 0 || within + cost > 7) << now;
  }
}

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

TEST(SlidingLogTest, TimeNeverRunsBackwardsForAKey) {
  Key key(kLogin);
  key.take({.now = 0, .cost = 2});
  key.take({.now = 10 * kMinuteNs, .cost = 2});
  // Decided at minute 10, at which two units have stopped counting; the wait counts from minute 9.
  EXPECT_EQ(key.take({.now = 9 * kMinuteNs, .cost = 3}),
            admit({.limit = 5, .reset_ns = 11 * kMinuteNs}));
  EXPECT_EQ(key.take({.now = 9 * kMinuteNs}),
            deny({.limit = 5, .retry_ns = 11 * kMinuteNs, .reset_ns = 11 * kMinuteNs}));
}

TEST(SlidingLogTest, RefundsTheNewestFirst) {
  Key key = one_a_minute();
  const Instant now = 5 * kMinuteNs;
  EXPECT_EQ(key.refund({.now = now, .cost = 2}),
            admit({.limit = 5, .remaining = 2, .reset_ns = 7 * kMinuteNs}));
  EXPECT_EQ(key.take({.now = now, .cost = 5}).retry_after, nanoseconds(7 * kMinuteNs));
  EXPECT_EQ(key.refund({.now = now, .cost = kMaxInt64}), admit({.limit = 5, .remaining = 5}));
  EXPECT_EQ(key.state().size, 0U);
}

TEST(SlidingLogTest, RefundsPartOfAnEntry) {
  Key key(kLogin);
  key.take({.now = 0, .cost = 1});
  key.take({.now = kMinuteNs, .cost = 4});
  EXPECT_EQ(key.refund({.now = 2 * kMinuteNs, .cost = 3}).remaining, 3);
  EXPECT_EQ(key.take({.now = 2 * kMinuteNs, .cost = 5}).retry_after, nanoseconds(9 * kMinuteNs));
  // Only counted units are refunded; the unit of minute 0 has stopped counting.
  EXPECT_EQ(key.refund({.now = 10 * kMinuteNs, .cost = 1}), admit({.limit = 5, .remaining = 5}));
}

TEST(SlidingLogTest, ALoweredLimitWaitsForMoreUnits) {
  Key key = one_a_minute();
  key.redefine("sliding_log 2/10m");
  EXPECT_EQ(key.take({.now = 4 * kMinuteNs, .cost = 2}),
            deny({.limit = 2, .retry_ns = 10 * kMinuteNs, .reset_ns = 10 * kMinuteNs}));
  EXPECT_EQ(key.take({.now = 4 * kMinuteNs, .cost = 1}).retry_after, nanoseconds(9 * kMinuteNs));
}

TEST(SlidingLogTest, TheExtremesOfADefinitionDoNotOverflow) {
  Key key("sliding_log 65536/2305843009213693952ns");
  const Instant late = kEndOfTime - 1;
  EXPECT_TRUE(key.take({.now = 0, .cost = 1}).allowed);
  EXPECT_EQ(key.take({.now = late, .cost = 65'536}),
            admit({.limit = 65'536, .reset_ns = kMaxDurationNs}));
  EXPECT_EQ(key.take({.now = 0}).retry_after, nanoseconds(late + kMaxDurationNs));
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

TEST(SlidingLogTest, DescribesItselfCanonically) {
  EXPECT_EQ(SlidingLog::describe(Key("sliding_log 5/600s").params()), "sliding_log 5/10m");
  EXPECT_THROW(Key("sliding_log 65537/1s"), InvalidLimit);
  EXPECT_THROW(Key("sliding_log 5/1s anchor=first"), InvalidLimit);
}

TEST(SlidingLogTest, AChargeCountsBeyondTheLimitForOneWindow) {
  Key key("sliding_log 5/10s");
  EXPECT_EQ(key.charge({.now = 0, .cost = 3}).remaining, 2);
  EXPECT_EQ(key.charge({.now = kSecondNs, .cost = 9}).remaining, 0);
  EXPECT_EQ(key.take({.now = kSecondNs}).retry_after.count(), 10 * kSecondNs);
  EXPECT_EQ(key.refund({.now = kSecondNs, .cost = 8}).remaining, 1);
  EXPECT_EQ(key.charge({.now = kSecondNs, .cost = kMaxInt64}).remaining, 0);
  const auto full = key.state();
  EXPECT_EQ(key.charge({.now = 2 * kSecondNs}).reset_after.count(), 9 * kSecondNs);
  EXPECT_EQ(key.state().size, full.size);
  EXPECT_EQ(key.take({.now = 11 * kSecondNs}).remaining, 4);
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

#include "advise/demand.h"

#include <gtest/gtest.h>

#include <random>

#include "sluice/limit.h"

namespace sluice::advise {
namespace {

/// The requests of one key at random instants, some of them late and some with a larger cost.
std::vector<Call> random_calls(unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Call> calls;
  Instant now = 1'700'000'000'000'000'000;
  for (int i = 0; i < 400; ++i) {
    const bool is_pause = random() % 20 == 0;
    now += static_cast<std::int64_t>(random() % (is_pause ? 90'000'000'000 : 700'000'000));
    const std::int64_t late_ns = random() % 10 == 0 ? 3'000'000'000 : 0;
    calls.push_back({.now = now - late_ns, .cost = random() % 15 == 0 ? 4 : 1});
  }
  return calls;
}

/// The requests that a limit denies, decided from the start.
template <class A>
std::uint64_t denied_by(const std::string& expression, const std::vector<Call>& calls) {
  const auto params = std::get<Part<A>>(parse_parts(expression)[0]).params;
  OwnedState<A> state;
  std::uint64_t denied = 0;
  for (const Call& call : calls) {
    const auto step = A::take(params, state.view(), call);
    if (step.decision.allowed) {
      state.commit(step.next);
    } else {
      ++denied;
    }
  }
  return denied;
}

template <class A, std::size_t kCount>
void expect_exact(const std::array<LimitFamily<A>, kCount>& families, std::size_t first) {
  for (unsigned seed = 0; seed < 5; ++seed) {
    const std::vector<Call> calls = random_calls(seed);
    for (std::size_t i = 0; i < kCount; ++i) {
      Demand<A> demand;
      for (const Call& call : calls) demand.add(families[i], call);
      const FamilyInfo& info = limit_families().info[first + i];
      // A sliding_log may need a limit that is not tried.
      const bool is_tried = demand.peak() != kMaxCount;
      const std::int64_t largest = is_tried ? demand.peak() : kLargestLog;
      SCOPED_TRACE(info.expression(largest));
      EXPECT_EQ(denied_by<A>(info.expression(largest), calls) == 0, is_tried);
      EXPECT_GT(denied_by<A>(info.expression(largest - 1), calls), 0U);
      for (std::size_t limit = 0; limit_series()[limit] <= largest; ++limit) {
        EXPECT_EQ(demand.denied(limit), denied_by<A>(info.expression(limit_series()[limit]), calls))
            << limit_series()[limit];
      }
    }
  }
}

TEST(Demand, OfEachFamilyIsExact) {
  expect_exact(limit_families().buckets, 0);
  expect_exact(limit_families().sliding, kFirstSliding);
  expect_exact(limit_families().fixed, kFirstFixed);
  expect_exact(limit_families().counters, kFirstCounter);
  expect_exact(limit_families().logs, kFirstLog);
}

TEST(Demand, OfLogsEndsAtTheLargestThatIsTried) {
  Demand<SlidingLog> demand;
  const auto& hours = limit_families().logs[4];
  for (Instant i = 0; i < 3'000; ++i) demand.add(hours, {.now = i, .cost = 1});
  EXPECT_EQ(demand.peak(), kMaxCount);
  EXPECT_EQ(demand.denied(series_index(kLargestLog)), 3'000 - kLargestLog);
}

TEST(LimitFamilies, ALeakyBucketAdmitsWhatATokenBucketDoes) {
  for (std::size_t i = 0; i < kRates; ++i) {
    const FamilyInfo& info = limit_families().info[i];
    const std::vector<Call> calls = random_calls(7);
    for (const std::int64_t burst : {1, 2, 7, 30}) {
      EXPECT_EQ(denied_by<LeakyBucket>(info.leaky_bucket().expression(burst - 1), calls),
                denied_by<TokenBucket>(info.expression(burst), calls));
    }
  }
}

TEST(Demand, OfACostThatNoBucketCanHold) {
  Demand<TokenBucket> demand;
  demand.add(limit_families().buckets[0], {.now = 1, .cost = kMaxCount});
  EXPECT_EQ(demand.peak(), kMaxCount);
  EXPECT_EQ(demand.denied(0), 1U);
  demand.add(limit_families().buckets[0], {.now = 1, .cost = 1});
  EXPECT_EQ(demand.denied(0), 1U);
}

TEST(LimitFamilies, EachLimitOfTheSeriesIsValid) {
  for (std::size_t family = 0; family < kFamilies; ++family) {
    const FamilyInfo& info = limit_families().info[family];
    for (const std::size_t index : {std::size_t{0}, std::size_t{11}, info.limits - 1}) {
      EXPECT_NO_THROW(Limit(info.expression(limit_series()[index])));
    }
  }
}

TEST(LimitFamilies, TheSeriesAscends) {
  const std::vector<std::int64_t>& series = limit_series();
  for (std::size_t i = 1; i < series.size(); ++i) EXPECT_LT(series[i - 1], series[i]);
  EXPECT_EQ(series[series_index(1)], 1);
  EXPECT_EQ(series[series_index(11)], 15);
  EXPECT_EQ(series[series_index(70)], 70);
  EXPECT_EQ(series[series_index(kMaxCount)], series.back());
}

TEST(LimitFamilies, RecoveryIsTheTimeInWhichAllUnitsReturn) {
  EXPECT_EQ(limit_families().info[1].expression(50), "token_bucket 6/1m burst=50");
  EXPECT_EQ(limit_families().info[1].recovery_ns(50), 500'000'000'000);
  EXPECT_EQ(limit_families().info[kFirstSliding + 2].expression(50), "sliding_window 50/1m");
  EXPECT_EQ(limit_families().info[kFirstSliding + 2].recovery_ns(50), 60'000'000'000);
}

}  // namespace
}  // namespace sluice::advise

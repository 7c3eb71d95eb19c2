#include "algorithms/limit_definition.h"
#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

/// What a FallbackStore does with its deny cache; deny_cache_test.cc says what the cache does.
class FallbackCacheTest : public FallbackFixture {
 protected:
  void SetUp() override {
    wrap({});
    decide({.cost = 10});
  }

  // Whether the store itself is asked.
  bool asks(const Ask& ask, Instant now = kStoreTime) {
    const std::size_t before = inner_->asked.size();
    last_ = decide(ask, now);
    return inner_->asked.size() > before;
  }

  Decision last_;
};

TEST_F(FallbackCacheTest, AHotDeniedKeyAsksTheStoreOnce) {
  EXPECT_TRUE(asks(Ask{}));
  const Decision told = last_;
  for (int i = 0; i < 1'000; ++i) ASSERT_FALSE(asks(Ask{}));
  EXPECT_FALSE(last_.allowed);
  EXPECT_EQ(last_.source, Source::kCache);
  EXPECT_EQ(last_.limit, 10);
  EXPECT_EQ(last_.remaining, 0);
  EXPECT_GT(last_.retry_after, std::chrono::minutes(5));
  EXPECT_LE(last_.retry_after, told.retry_after);
  EXPECT_GE(last_.reset_after, last_.retry_after);
  EXPECT_EQ(store_->counters().cached_denials, 1'000U);
  EXPECT_EQ(store_->counters().unanswered, 0U);
}

// However brief: a key that has been denied is asked about by the precise clock.
TEST_F(FallbackCacheTest, AKeyOfBriefDenialsAsksForEachAdmissionAndOneDenial) {
  use("token_bucket 1/2ms", "brief");
  inner_->asked.clear();
  const Instant end = store_->now() + 60 * kMillisecondNs;
  std::size_t admitted = 0;
  while (store_->now() < end) admitted += decide(Ask{}).allowed ? 1 : 0;
  EXPECT_LE(inner_->asked.size(), 2 * admitted + 20);
}

TEST_F(FallbackCacheTest, DeniesWithinABatch) {
  decide({.key = "k"});
  inner_->asked.clear();
  const auto decisions =
      decide_batch({{.key = "a"}, {.key = "k"}, {.key = "b"}, {.key = "k", .cost = 0}});
  EXPECT_EQ(inner_->asked.size(), 3U);
  EXPECT_EQ(decisions[0].source, Source::kStore);
  EXPECT_EQ(decisions[1].source, Source::kCache);
  EXPECT_TRUE(decisions[2].allowed);
  EXPECT_TRUE(decisions[3].allowed);
}

TEST_F(FallbackCacheTest, StandsThoughTheStoreIsLost) {
  decide(Ask{});
  inner_->lose_all();
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, SmallerCostsPeeksAndPatienceAsk) {
  decide({.cost = 5});
  EXPECT_FALSE(asks({.cost = 6}));
  EXPECT_TRUE(asks({.cost = 0}));
  EXPECT_TRUE(asks({.cost = 5, .patience_ns = 1}));
  decide({.cost = 5});
  EXPECT_TRUE(asks({.cost = 4}));
  EXPECT_TRUE(asks({.cost = 11})) << "its wait has no end, which the store says";
}

TEST_F(FallbackCacheTest, IsNotForInstantsThatAreGiven) {
  EXPECT_TRUE(asks(Ask{}, kStart));
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(asks(Ask{}, kStart));
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, IsNotForGroups) {
  EXPECT_FALSE(decide_all({{.key = "k"}, {.key = "other"}}).allowed);
  EXPECT_TRUE(asks(Ask{}));
  inner_->asked.clear();
  EXPECT_FALSE(decide_all({{.key = "k"}, {.key = "other"}}).allowed);
  EXPECT_EQ(inner_->asked.size(), 2U);
}

TEST_F(FallbackCacheTest, AnAmpersandIsOneRequest) {
  use("token_bucket 1/1h & fixed_window 5/1h", "both");
  decide(Ask{});
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, RefundsAndResetsClear) {
  decide(Ask{});
  decide({.operation = Operation::kRefund});
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(last_.allowed);
  decide(Ask{});
  ASSERT_FALSE(asks(Ask{}));
  decide({.operation = Operation::kReset}, kStart);
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(last_.allowed);
}

// It makes what was denied wait the longer.
TEST_F(FallbackCacheTest, AnAdmissionOfLessLeavesADenialAlone) {
  decide({.cost = 10});
  ASSERT_FALSE(asks({.cost = 10}));
  decide({.cost = 9});
  EXPECT_FALSE(asks({.cost = 10}));
}

// Even where the store did not answer: it may have been done.
TEST_F(FallbackCacheTest, AnUnansweredResetClears) {
  decide(Ask{});
  inner_->lose_all();
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, IsInTheOrderOfTheBatch) {
  decide(Ask{});
  const auto decisions =
      decide_batch({Ask{}, {.operation = Operation::kReset}, Ask{}, {.cost = 10}});
  EXPECT_EQ(decisions[0].source, Source::kCache);
  EXPECT_TRUE(decisions[2].allowed);
  EXPECT_EQ(decisions[2].source, Source::kStore);
  EXPECT_FALSE(decisions[3].allowed);
  EXPECT_EQ(decisions[3].remaining, 9);
}

// The denial is on its way when, elsewhere in this process, the key is reset.
TEST_F(FallbackCacheTest, ADenialOlderThanAResetIsNotRemembered) {
  inner_->on_the_way = [this] { decide({.operation = Operation::kReset}); };
  EXPECT_FALSE(decide(Ask{}).allowed);
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_TRUE(last_.allowed);
}

// What is denied while a reset is under way may be older than it.
TEST_F(FallbackCacheTest, ADenialDuringAResetIsNotRemembered) {
  inner_->on_the_way = [this] {
    EXPECT_TRUE(decide({.cost = 10}).allowed);
    EXPECT_FALSE(decide(Ask{}).allowed);
  };
  decide({.operation = Operation::kReset});
  EXPECT_TRUE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, OtherNumbersForTheSpaceClear) {
  decide(Ask{});
  const auto same = store_->open_space(limit_->definition());
  EXPECT_FALSE(asks(Ask{}));
  use("token_bucket 11/1h");
  EXPECT_EQ(same, space_);
  EXPECT_TRUE(asks(Ask{}));
  use("token_bucket 10/1h");
  EXPECT_TRUE(asks(Ask{}));
  EXPECT_FALSE(asks(Ask{}));
}

TEST_F(FallbackCacheTest, OtherNumbersInOneSpaceDoNotMatch) {
  LimitDefinition low = Limit("token_bucket 1/1h").definition();
  LimitDefinition high = Limit("token_bucket 2/1h").definition();
  low.space = high.space = "each its own";
  low.varies = high.varies = true;
  const auto space = store_->open_space(low);
  EXPECT_EQ(store_->open_space(high), space);
  const auto take = [&](const LimitDefinition& limit) {
    const Request request{.limit = &limit, .space = space.get(), .key = "k"};
    Decision decision;
    store_->decide({&request, 1}, kStoreTime, {&decision, 1});
    return decision;
  };
  EXPECT_TRUE(take(low).allowed);
  EXPECT_FALSE(take(low).allowed);
  store_->open_space(high);
  EXPECT_EQ(take(low).source, Source::kCache);
  EXPECT_EQ(take(high).source, Source::kStore);
}

TEST_F(FallbackCacheTest, MayBeSwitchedOff) {
  wrap({.deny_cache = false});
  decide({.cost = 10});
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(asks(Ask{}));
  EXPECT_EQ(store_->counters().cached_denials, 0U);
}

}  // namespace
}  // namespace sluice

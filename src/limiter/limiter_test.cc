#include "sluice/limiter.h"

#include <gmock/gmock.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "fallback/fallback_store.h"
#include "testing/scripted_store.h"

namespace sluice {
namespace {

using std::chrono::nanoseconds;
using testing::ElementsAre;
using testing::HasSubstr;
using Asked = ScriptedStore::Asked;

/// What a limiter makes of a store that fails, or answers later; tests/library has more.
class LimiterTest : public testing::Test {
 protected:
  struct Told {
    Decision decision;
    std::exception_ptr error;
  };

  Limiter make(const FallbackOptions& options = {}, std::string_view limit = "token_bucket 10/1h") {
    return {std::make_shared<FallbackStore>(inner_, options), Limit(limit, "limit")};
  }

  DecisionCallback tell() {
    return [this](const Decision& decision, std::exception_ptr error) {
      told_.push_back({decision, std::move(error)});
    };
  }

  std::shared_ptr<ScriptedStore> inner_ = std::make_shared<ScriptedStore>();
  std::vector<Told> told_;
};

TEST_F(LimiterTest, NeedsAStore) {
  EXPECT_THROW(Limiter(nullptr, Limit("token_bucket 1/1s")), std::invalid_argument);
}

TEST_F(LimiterTest, ABatchIsOneQuestion) {
  Limiter limiter = make();
  std::vector<Ask> asks(200, Ask{.key = "a"});
  asks[7] = {.key = "b", .cost = 3};
  std::vector<Decision> decisions(asks.size());
  limiter.check(asks, decisions);
  EXPECT_THAT(inner_->batches, ElementsAre(200));
  EXPECT_EQ(decisions[0].remaining, 9);
  EXPECT_EQ(decisions[7].remaining, 7);
  EXPECT_FALSE(decisions[199].allowed);
}

TEST_F(LimiterTest, RaisesForABatchOnceAllOthersAreDecided) {
  Limiter limiter = make({.on_failure = OnFailure::kRaise});
  inner_->loses = [](const Request& request) { return request.key == "b"; };
  const std::vector<Ask> asks{{.key = "b"}, {.key = "a"}};
  std::vector<Decision> decisions(2);
  EXPECT_THROW(limiter.check(asks, decisions), StoreError);
  EXPECT_EQ(decisions[0].source, Source::kUnavailable);
  EXPECT_TRUE(decisions[1].allowed);
}

TEST_F(LimiterTest, AResetThatIsNotAnsweredIsAnError) {
  Limiter limiter = make();
  limiter.check("a", 4);
  inner_->lose_all();
  try {
    limiter.reset("a");
    FAIL() << "nothing was thrown";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), HasSubstr("'a' is reset in this process at most"));
  }
  EXPECT_EQ(limiter.peek("a").remaining, 10) << "and so it is";
}

// The questions under way keep what they need: all but the store.
TEST_F(LimiterTest, MayGoBeforeItsQuestionsAreAnswered) {
  inner_->answers = ScriptedStore::Answers::kWhenTold;
  const auto store = std::make_shared<FallbackStore>(inner_, FallbackOptions{});
  {
    Limiter limiter(store, Limit("token_bucket 10/1h", "limit"));
    limiter.async_check(std::string("a key that does not live long enough to be asked"), 4, tell());
    limiter.set_limit(Limit("sliding_log 7/1h", "limit"));
    limiter.async_check("a", 4, tell());
  }
  EXPECT_EQ(store.use_count(), 1);
  inner_->answer_all();
  ASSERT_EQ(told_.size(), 2U);
  EXPECT_EQ(told_[0].decision.remaining, 6);
  EXPECT_EQ(inner_->asked[0].key, "a key that does not live long enough to be asked");
  EXPECT_EQ(told_[1].decision.remaining, 3);
}

// What the deny cache knows is told at once, though the store answers later.
TEST_F(LimiterTest, TellsAtOnceWhatIsKnown) {
  Limiter limiter = make();
  limiter.check("a", 10);
  limiter.check("a");
  inner_->answers = ScriptedStore::Answers::kWhenTold;
  limiter.async_check("a", 1, tell());
  ASSERT_EQ(told_.size(), 1U);
  EXPECT_EQ(told_[0].decision.source, Source::kCache);
}

TEST_F(LimiterTest, AReservationIsGivenBackToWhoGaveIt) {
  Limiter limiter = make();
  Reservation by_store = limiter.reserve("a", 4);
  inner_->lose_all();
  Reservation here = limiter.reserve("a", 3);
  EXPECT_EQ(here.decision().source, Source::kLocal);
  inner_->lose_nothing();
  inner_->asked.clear();
  here.cancel();
  EXPECT_THAT(inner_->asked, ElementsAre());
  by_store.cancel();
  EXPECT_THAT(inner_->asked,
              ElementsAre(Asked{.key = "a", .operation = Operation::kRefund, .cost = 4}));
  EXPECT_EQ(limiter.peek("a").remaining, 10);
}

TEST_F(LimiterTest, AReservationIsSettledThoughTheStoreIsLost) {
  Limiter limiter = make({.on_failure = OnFailure::kRaise});
  Reservation reservation = limiter.reserve("a", 4);
  inner_->lose_all();
  EXPECT_THROW(reservation.commit(1), StoreError);
  inner_->lose_nothing();
  reservation.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 6) << "what happens to it happens once";
}

TEST_F(LimiterTest, AnotherLimitIsAskedAnew) {
  Limiter limiter = make();
  limiter.check("a", 10);
  EXPECT_FALSE(limiter.check("a").allowed);
  EXPECT_EQ(limiter.check("a").source, Source::kCache);
  limiter.set_limit(Limit("token_bucket 20/1h burst=40", "limit"));
  EXPECT_TRUE(limiter.check("a").allowed);
}

TEST_F(LimiterTest, ALimitChangesAFewThousandTimes) {
  Limiter limiter = make();
  for (int i = 2; i <= 10'000; ++i) {
    limiter.set_limit(Limit("token_bucket " + std::to_string(i + 10) + "/1h", "limit"));
  }
  EXPECT_THROW(limiter.set_limit(Limit("token_bucket 1/1h", "limit")), StoreError);
  EXPECT_EQ(limiter.check("a").limit, 10'010);
  limiter.set_limit(Limit("token_bucket 10/1h", "limit"));
  EXPECT_EQ(limiter.check("a").limit, 10) << "it has had that one";
}

}  // namespace
}  // namespace sluice

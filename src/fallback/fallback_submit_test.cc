#include <gmock/gmock.h>

#include <chrono>

#include "testing/fallback_fixture.h"

namespace sluice {
namespace {

/// What a FallbackStore makes of submitted batches, which the store inside answers later.
class FallbackSubmitTest : public FallbackFixture {
 protected:
  void SetUp() override { inner_->answers = ScriptedStore::Answers::kWhenTold; }
};

TEST_F(FallbackSubmitTest, AnswersWhenTheStoreDoes) {
  wrap({});
  EXPECT_TRUE(store_->answers_later());
  lose("b");
  const auto batch = submit({{.key = "a"}, {.key = "b", .cost = 2}, {.key = "a"}});
  EXPECT_EQ(batch->completions, 0);
  inner_->answer_all();
  EXPECT_EQ(batch->completions, 1);
  EXPECT_EQ(batch->decisions[0].remaining, 9);
  EXPECT_EQ(batch->decisions[1].remaining, 8);
  EXPECT_EQ(batch->decisions[1].source, Source::kLocal);
  EXPECT_EQ(batch->decisions[2].remaining, 8);
  EXPECT_EQ(batch->error, "");
}

// The batch waits for its last answer.
TEST_F(FallbackSubmitTest, EachAnswerOfABatchIsRememberedAsItArrives) {
  wrap({}, "fixed_window 10/1d");
  inner_->answers = ScriptedStore::Answers::kAtOnce;
  inner_->on_the_way = [this] { EXPECT_EQ(decide({.key = "k", .cost = 5}).remaining, 4); };
  EXPECT_EQ(decide_batch({{.key = "k"}, {.key = "other"}})[0].remaining, 9);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "k", .cost = 0}).remaining, 4);
}

TEST_F(FallbackSubmitTest, ABatchEndsNoBlockThatWasAnsweredMeanwhile) {
  wrap({});
  inner_->answers = ScriptedStore::Answers::kAtOnce;
  for (const char* expression : {"fixed_window 10/1h", "fixed_window 10/1h & token_bucket 10/1h"}) {
    space_.reset();
    use(expression);
    for (const char* key : {"k", "unanswered"}) {
      inner_->on_the_way = [&] {
        if (key == std::string_view("unanswered")) inner_->lose_all();
        decide({.key = key, .operation = Operation::kBlock, .duration_ns = kHourNs});
        inner_->lose_nothing();
      };
      EXPECT_TRUE(decide_batch({{.key = "other"}, {.key = key}})[1].allowed);
      inner_->lose_all();
      EXPECT_FALSE(decide({.key = key}).allowed) << key;
      EXPECT_TRUE(decide({.key = "other"}).allowed);
      inner_->lose_nothing();
    }
  }
}

// Of a store with several connections, it may come by another one than the key's other answers.
TEST_F(FallbackSubmitTest, AnOlderAnswerToAGroupReplacesNoStricterOne) {
  wrap({}, "fixed_window 10/1d & fixed_window 20/1d");
  inner_->answers = ScriptedStore::Answers::kAtOnce;
  inner_->on_the_way = [this] { EXPECT_TRUE(decide({.key = "b", .cost = 9}).allowed); };
  EXPECT_TRUE(decide_all({{.key = "a"}, {.key = "b"}}).allowed);
  inner_->lose_all();
  EXPECT_EQ(decide({.key = "b", .cost = 0}).remaining, 0);
  EXPECT_EQ(decide({.key = "a", .cost = 0}).remaining, 9);
}

TEST_F(FallbackSubmitTest, AnOlderAnswerToAGroupEndsNoDenial) {
  wrap({}, "fixed_window 10/1d");
  inner_->answers = ScriptedStore::Answers::kAtOnce;
  inner_->on_the_way = [this] {
    decide_elsewhere({.key = "b", .operation = Operation::kBlock, .duration_ns = kHourNs});
    EXPECT_FALSE(decide({.key = "b"}).allowed);
  };
  EXPECT_TRUE(decide_all({{.key = "a"}, {.key = "b"}}).allowed);
  EXPECT_EQ(decide({.key = "b"}).source, Source::kCache);
}

// What has come back since then may be admitted here.
TEST_F(FallbackSubmitTest, AnAnswerCountsFromWhenItArrived) {
  wrap({}, "token_bucket 10/10s");
  inner_->arrived = std::chrono::steady_clock::now() - std::chrono::seconds(5);
  submit({{.key = "single", .cost = 10}});
  submit({{.key = "one of two", .cost = 10}, {.key = "other"}});
  inner_->answer_all();
  inner_->lose_all();
  EXPECT_TRUE(decide({.key = "single", .cost = 5}).allowed);
  EXPECT_TRUE(decide({.key = "one of two", .cost = 5}).allowed);
}

TEST_F(FallbackSubmitTest, PartsComeWithTheBatch) {
  wrap({}, "sliding_log 9/1h & sliding_log 4/1h");
  lose("b");
  decide({.key = "c", .cost = 4});
  decide({.key = "c"});
  auto asked = requests({{.key = "a"}, {.key = "c"}, {.key = "b"}});
  std::vector<Decision> sizes(2);
  asked[0].parts = sizes;
  asked[2].parts = sizes;
  std::vector<Decision> parts;
  auto batch = std::make_unique<Batch>(asked);
  batch->completion = [&](const Batch& done) {
    EXPECT_EQ(done.decisions()[1].source, Source::kCache) << "the others are asked without it";
    EXPECT_EQ(done.decisions()[1].binding, 1);
    for (const std::size_t i : {0, 2}) {
      const std::span<const Decision> own = done.requests()[i].parts;
      parts.insert(parts.end(), own.begin(), own.end());
    }
  };
  store_->submit(std::move(batch));
  inner_->answer_all();
  ASSERT_EQ(parts.size(), 4U);
  EXPECT_EQ(parts[0].remaining, 8);
  EXPECT_EQ(parts[1].remaining, 3);
  EXPECT_EQ(parts[2].source, Source::kLocal);
  EXPECT_EQ(parts[3].remaining, 3);
}

TEST_F(FallbackSubmitTest, AsksForTheRestOfWhatItRemembersInPart) {
  wrap({.on_failure = OnFailure::kRaise});
  decide({.cost = 10});
  decide(Ask{});
  inner_->asked.clear();
  lose("b");
  const auto batch = submit({{.key = "a"}, Ask{}, {.key = "b"}, {.key = "c", .cost = 3}});
  EXPECT_EQ(batch->completions, 0);
  EXPECT_EQ(inner_->asked.size(), 3U);
  inner_->answer_all();
  ASSERT_EQ(batch->completions, 1);
  EXPECT_EQ(batch->decisions[0].remaining, 9);
  EXPECT_EQ(batch->decisions[1].source, Source::kCache);
  EXPECT_EQ(batch->decisions[2].source, Source::kUnavailable);
  EXPECT_EQ(batch->decisions[3].remaining, 7);
  EXPECT_EQ(batch->error, "the line is cut");
}

// A denial stands from when it was asked for, and not from when the caller, whose completion then
// took long, was told.
TEST_F(FallbackSubmitTest, ACompletionThatTakesLongAsksByALaterClock) {
  wrap({}, "sliding_log 1/300ms");
  bool is_told = false;
  const Request asked = request(Ask{});
  auto batch = std::make_unique<Batch>(std::span(&asked, 1));
  batch->completion = [&](Batch&) {
    let_pass(300 * kMillisecondNs);
    const Instant asks = store_->now();
    EXPECT_TRUE(decide(Ask{}).allowed);
    EXPECT_EQ(decide(Ask{}).source, Source::kStore);
    const Source again = decide(Ask{}).source;
    // Else this thread was held up until the window was over.
    const bool is_denied_still = store_->now() < asks + 300 * kMillisecondNs;
    if (is_denied_still) EXPECT_EQ(again, Source::kCache);
    is_told = true;
  };
  store_->submit(std::move(batch));
  inner_->answer_all();
  EXPECT_TRUE(is_told);
}

// What the refund makes possible is denied to no caller, whichever numbers it asks by.
TEST_F(FallbackSubmitTest, ARefundClearsWhatOtherNumbersDeniedMeanwhile) {
  wrap({}, "token_bucket 1/1h");
  EXPECT_TRUE(decide(Ask{}).allowed);
  submit({{.operation = Operation::kRefund}});
  const auto former = std::move(limit_);
  use("token_bucket 1/2h");
  EXPECT_EQ(decide(Ask{}).source, Source::kStore);
  EXPECT_EQ(decide(Ask{}).source, Source::kCache);
  inner_->answer_all();
  EXPECT_TRUE(decide(Ask{}).allowed);
}

}  // namespace
}  // namespace sluice

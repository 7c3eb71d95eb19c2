#include "service/decision_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "service/server_context.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

using testing::ElementsAre;

/// "TAG:remaining " or "TAG:denied " for each decision, "TAG:(why) " for one that is missing.
class TaggedReplies final : public ReplyWriter {
 public:
  void write_decisions(std::span<const ReplySlot> slots, std::span<const Decision> decisions,
                       std::string& output) override {
    for (std::size_t i = 0; i < slots.size(); ++i) {
      output += std::to_string(slots[i].tag) + ":" +
                (decisions[i].allowed ? std::to_string(decisions[i].remaining) : "denied") + " ";
    }
  }
  void write_unavailable(const ReplySlot& slot, std::string_view why,
                         std::string& output) override {
    output += std::to_string(slot.tag) + ":(" + std::string(why) + ") ";
  }
};

/// The only thread of a server over `store`, with the limits "login" (2 at once) and "api" (9).
class DecisionBatchTest : public testing::Test {
 protected:
  void serve(std::shared_ptr<Store> store) {
    const std::vector<Limit> named{Limit("token_bucket 2/1h", "login"),
                                   Limit("token_bucket 9/1h", "api")};
    context = std::make_shared<ServerContext>(std::move(store), named, 1);
    batch().clear();
  }

  DecisionBatch& batch() { return context->thread(0).batch; }

  void add(std::string_view limit, std::string_view key, std::uint32_t tag,
           Operation operation = Operation::kTake) {
    const auto& found = context->thread(0).limits.find(limit);
    Request request = found->request(key);
    request.operation = operation;
    batch().add(request, {.tag = tag, .limit = found->number}, found);
  }

  void reply(std::string_view text) { batch().other_replies(output) += text; }

  std::shared_ptr<PendingAnswers> ask() {
    return batch().ask(
        replies, [wakes = wakes] { ++*wakes; }, output);
  }

  std::string answers(const PendingAnswers& pending) {
    std::string text;
    pending.get().write(replies, context->thread(0).counters, text);
    return text;
  }

  std::shared_ptr<ScriptedStore> at_once = still_store();
  std::shared_ptr<ScriptedStore> later = later_store();
  std::shared_ptr<ServerContext> context;
  TaggedReplies replies;
  std::shared_ptr<int> wakes = std::make_shared<int>(0);
  std::string output = "before ";
};

TEST_F(DecisionBatchTest, WritesAllRepliesInOrder) {
  for (const bool is_later : {false, true}) {
    serve(is_later ? later : at_once);
    output = "before ";
    reply("first ");
    add("login", "a", 7);
    reply("second ");
    reply("third ");
    add("login", "a", 8);
    add("api", "a", 9);
    add("login", "a", 7);
    reply("last ");
    const std::string rest = "7:1 second third 8:0 9:8 7:denied last ";
    const std::shared_ptr<PendingAnswers> pending = ask();
    ASSERT_EQ(pending != nullptr, is_later);
    if (is_later) {
      EXPECT_EQ(output, "before first ");
      ASSERT_TRUE(later->answer());
      output += answers(*pending);
    }
    EXPECT_EQ(output, "before first " + rest);
  }
  EXPECT_THAT(at_once->batches, ElementsAre(4));
  EXPECT_THAT(later->batches, ElementsAre(4));
}

TEST_F(DecisionBatchTest, AsksNothingForOtherRepliesAlone) {
  serve(later);
  reply("only");
  EXPECT_EQ(ask(), nullptr);
  EXPECT_EQ(output, "before only");
  EXPECT_EQ(later->pending(), 0U);
}

TEST_F(DecisionBatchTest, CopiesNoKeyForAStoreThatAnswersAtOnce) {
  const char* key = nullptr;
  at_once->says = [&](const Request& request) {
    key = request.key.data();
    return std::nullopt;
  };
  serve(at_once);
  const std::string input = "bob";
  add("login", input, 1);
  ask();
  EXPECT_EQ(key, input.data());
}

TEST_F(DecisionBatchTest, OwnsCopiesForAStoreThatAnswersLater) {
  serve(later);
  auto input = std::make_unique<std::string>(100, 'k');
  add("token_bucket 3/1h", *input, 1);
  add("login", *input, 2);
  const auto pending = ask();
  input.reset();
  // The thread forgets the first expression.
  for (int i = 4; i < 300; ++i) {
    context->thread(0).limits.find("token_bucket " + std::to_string(i) + "/1h");
  }
  ASSERT_TRUE(later->answer());
  EXPECT_EQ(answers(*pending), "1:2 2:1 ");
}

TEST_F(DecisionBatchTest, WakesWhenTheStoreAnswersLaterOnly) {
  serve(later);
  add("login", "a", 1);
  const auto pending = ask();
  EXPECT_FALSE(pending->is_ready());
  EXPECT_EQ(*wakes, 0);
  ASSERT_TRUE(later->answer());
  EXPECT_TRUE(pending->is_ready());
  EXPECT_EQ(*wakes, 1);
  later->answers = ScriptedStore::Answers::kAtOnce;
  add("login", "a", 1);
  EXPECT_EQ(ask(), nullptr);
  EXPECT_EQ(output, "before 1:0 ");
  EXPECT_EQ(*wakes, 1);
}

TEST_F(DecisionBatchTest, SaysWhyADecisionIsMissing) {
  const std::string away = "1:(the store is away) 2:(the store is away) ";
  for (const bool is_later : {false, true}) {
    serve(is_later ? later : at_once);
    take_away(is_later ? *later : *at_once);
    output.clear();
    add("login", "a", 1);
    add("login", "a", 2, Operation::kReset);
    EXPECT_EQ(ask(), nullptr);
    EXPECT_EQ(output, away);
  }
}

TEST_F(DecisionBatchTest, NeverSaysThatAKeyIsChangedWhereTheStoreDidNotChangeIt) {
  decide_locally(*later, {.allowed = true, .remaining = 1});
  serve(later);
  add("login", "local", 1);
  add("login", "local", 2, Operation::kReset);
  add("login", "local", 3, Operation::kRefund);
  add("login", "a", 4, Operation::kRefund);
  const auto pending = ask();
  ASSERT_TRUE(later->answer());
  const std::string why = "(the store did not answer: the key is changed in this process at most) ";
  EXPECT_EQ(answers(*pending), "1:1 2:" + why + "3:" + why + "4:2 ");
}

TEST_F(DecisionBatchTest, DropsTheAnswersToAConnectionThatHasGone) {
  serve(later);
  add("login", "a", 1);
  auto pending = ask();
  pending.reset();
  add("login", "a", 2);
  pending = ask();
  ASSERT_TRUE(later->answer());
  ASSERT_TRUE(later->answer());
  EXPECT_EQ(answers(*pending), "2:0 ");
}

TEST_F(DecisionBatchTest, TheStoreMayGoWhileAnswersArePending) {
  serve(later);
  add("login", "a", 1);
  const auto pending = ask();
  later.reset();
  context.reset();
  EXPECT_TRUE(pending->is_ready());
  EXPECT_EQ(*wakes, 1);
}

TEST_F(DecisionBatchTest, RepeatsTheLastRequestOnlyWhereNothingCameBetween) {
  serve(at_once);
  EXPECT_FALSE(batch().ends_with(1));
  add("login", "a", 1);
  EXPECT_FALSE(batch().ends_with(2));
  EXPECT_TRUE(batch().ends_with(1));
  batch().repeat("b");
  EXPECT_TRUE(batch().ends_with(1));
  batch().repeat("a");
  reply("between ");
  EXPECT_FALSE(batch().ends_with(1));
  ask();
  EXPECT_EQ(output, "before 1:1 1:1 1:0 between ");
}

TEST_F(DecisionBatchTest, ForgetsAReadThatWasNotFinished) {
  serve(at_once);
  add("login", "a", 1);
  reply("lost ");
  batch().clear();
  add("login", "a", 2);
  ask();
  EXPECT_EQ(output, "before 2:1 ");
}

}  // namespace
}  // namespace sluice

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "protocols/resp/handler.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Next = StreamHandler::Next;

class LaterRepliesTest : public testing::Test {
 protected:
  /// The replies of a handler over a store that answers at once.
  static std::string at_once(std::string_view bytes) {
    TestPeer peer(thread_over(still_store()));
    peer.send(bytes);
    return peer.output;
  }

  /// Lets the store answer until nothing waits, and lets `peer` continue each time.
  void answer_all(TestPeer& peer) {
    while (store->pending() != 0) {
      ASSERT_TRUE(store->answer());
      peer.go_on();
    }
  }

  std::shared_ptr<ScriptedStore> store = later_store();
  std::shared_ptr<ThreadState> thread = thread_over(store);
};

const std::string kMixed =
    "CL.THROTTLE user 15 30 60\r\nPING\r\nSLUICE.CHECK login bob\r\nCLIENT GETNAME\r\nFOO\r\n"
    "SLUICE.CHECK nobody bob\r\nHELLO 3 SETNAME me\r\nCLIENT GETNAME\r\nSLUICE.RESET login bob\r\n"
    "SLUICE.CHECK 'token_bucket 7/1s' 'b o b' 2\r\nECHO \"a b\"\r\nCL.THROTTLE user 15 30 60\r\n"
    "RESET\r\nCLIENT GETNAME\r\n";

TEST_F(LaterRepliesTest, KeepsTheOrderOfDecisionsAndOtherReplies) {
  TestPeer peer(thread);
  peer.send("PING\r\n" + kMixed);
  EXPECT_EQ(peer.take_output(), "+PONG\r\n");
  EXPECT_EQ(peer.progress.next, Next::kLater);
  EXPECT_EQ(store->pending(), 1U);
  peer.go_on();  // Too early.
  EXPECT_EQ(peer.progress.next, Next::kLater);
  EXPECT_EQ(peer.output, "");
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(*peer.wakes, 1);
  peer.go_on();
  EXPECT_EQ(peer.progress.next, Next::kNeedMore);
  EXPECT_EQ(peer.output, at_once(kMixed));
  EXPECT_THAT(store->batches, ElementsAre(5));
}

TEST_F(LaterRepliesTest, SplitsChangeNothing) {
  const std::string bytes = kMixed + array({"CL.THROTTLE", "user", "15", "30", "60"}) +
                            array({"HELLO", "3"}) + array({"CLIENT", "GETNAME"}) +
                            array({"ECHO", "a\r\n"}) + "*1\r\nx\r\n";
  const std::string whole = at_once(bytes);
  for (const auto make_store : {still_store, later_store}) {
    for (std::size_t split = 0; split <= bytes.size(); ++split) {
      store = make_store();
      TestPeer peer(thread_over(store));
      peer.send(bytes.substr(0, split));
      if (split % 2 == 0) answer_all(peer);
      peer.send(bytes.substr(split));
      answer_all(peer);
      ASSERT_EQ(peer.output, whole) << "parted at " << split;
      ASSERT_EQ(peer.progress.next, Next::kClose);
    }
  }
}

TEST_F(LaterRepliesTest, AsksForOneBatchOfALongPipelineAfterTheOther) {
  std::string pipeline;
  for (int i = 0; i < 200; ++i) pipeline += array({"CL.THROTTLE", "user", "299", "1", "1"});
  TestPeer peer(thread);
  peer.send(pipeline);
  EXPECT_EQ(store->pending(), 1U);
  answer_all(peer);
  EXPECT_EQ(peer.output, at_once(pipeline));
  EXPECT_THAT(store->batches, ElementsAre(64, 64, 64, 8));
}

TEST_F(LaterRepliesTest, ClosesWhenTheLastHasBeenAnswered) {
  for (const std::string end : {"QUIT\r\nPING\r\n", "*1\r\nx\r\n", "POST / HTTP/1.1\r\n"}) {
    const std::string bytes = "SLUICE.PEEK login bob\r\n" + end;
    TestPeer peer(thread);
    peer.send(bytes);
    EXPECT_EQ(peer.progress.next, Next::kLater);
    answer_all(peer);
    EXPECT_EQ(peer.progress.next, Next::kClose);
    EXPECT_EQ(peer.output, at_once(bytes));
  }
}

TEST_F(LaterRepliesTest, SaysWhichDecisionsAreMissing) {
  TestPeer peer(thread);
  peer.send("SLUICE.PEEK login bob\r\nSLUICE.RESET login lost1\r\nCL.THROTTLE lost2 1 1 1\r\n");
  peer.send("SLUICE.PEEK login eve\r\n");
  answer_all(peer);
  const std::string answered = "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n";
  const std::string unanswered =
      "-UNAVAILABLE redis://far.example:6379 has not answered within 10ms\r\n";
  EXPECT_EQ(peer.output, answered + unanswered + unanswered + answered);
}

TEST_F(LaterRepliesTest, ReleasesAPermitThatTheStoreMayHaveGrantedUnanswered) {
  for (const bool was_sent : {true, false}) {
    store = later_store();
    store->says = [was_sent](const Request& request) -> std::optional<Decision> {
      if (request.key != "late" || request.operation != Operation::kTake) return std::nullopt;
      return Decision{.source = Source::kUnavailable, .taken = was_sent ? kTakenUnknown : 0};
    };
    TestPeer peer(thread_over(store));
    peer.send(
        "SLUICE.ACQUIRE 'concurrency 1' late\r\nSLUICE.ACQUIRE 'concurrency 1' other\r\n"
        "SLUICE.CHECK login late\r\n");
    ASSERT_TRUE(store->answer());
    ASSERT_EQ(store->pending(), was_sent ? 1U : 0U);
    peer.go_on();  // The client does not wait for the release.
    EXPECT_THAT(peer.output, StartsWith("-UNAVAILABLE "));
    EXPECT_EQ(peer.progress.next, Next::kNeedMore);
    if (!was_sent) continue;
    const ScriptedStore::Asked release{.key = "late",
                                       .operation = Operation::kRelease,
                                       .permit = store->asked[0].permit,
                                       .is_reclaim = true};
    EXPECT_NE(release.permit, 0U);
    EXPECT_EQ(store->asked.back(), release);
    ASSERT_TRUE(store->answer());
  }
}

TEST_F(LaterRepliesTest, NeverSaysThatAKeyIsResetWhereTheStoreDidNot) {
  decide_locally(*store, {.allowed = true, .limit = 5, .remaining = 5});
  TestPeer peer(thread);
  peer.send(
      "SLUICE.PEEK login local\r\nSLUICE.RESET login local\r\nSLUICE.RESET login bob\r\n"
      "CL.THROTTLE local 1 1 1 -1\r\n");
  answer_all(peer);
  EXPECT_EQ(peer.output,
            "*6\r\n:1\r\n:5\r\n:5\r\n:0\r\n:0\r\n:0\r\n"
            "-UNAVAILABLE the store has not confirmed the change: it may or may not have changed "
            "the key\r\n"
            "+OK\r\n"
            "-UNAVAILABLE the store has not confirmed the change: it may or may not have changed "
            "the key\r\n");
}

TEST_F(LaterRepliesTest, RepliesAtOnceWhereTheStoreDoes) {
  store->answers = ScriptedStore::Answers::kAtOnce;
  TestPeer peer(thread);
  peer.send(kMixed);
  EXPECT_EQ(peer.progress.next, Next::kNeedMore);
  EXPECT_EQ(peer.output, at_once(kMixed));
  EXPECT_EQ(*peer.wakes, 0);
}

TEST_F(LaterRepliesTest, HoldsWhatItAsksAboutWhileTheThreadForgetsIt) {
  std::string first;
  std::string others;
  for (int i = 1; i <= 30; ++i) {
    const std::string number = std::to_string(i);
    first += "CL.THROTTLE user " + number + " 1 1\r\n";
    first += "SLUICE.CHECK 'token_bucket " + number + "/1h' bob\r\n";
  }
  for (int i = 100; i < 2'200; ++i) {
    const std::string number = std::to_string(i);
    others += "CL.THROTTLE other " + number + " 1 1\r\n";
    others += "SLUICE.PEEK 'token_bucket " + number + "/1h' bob\r\n";
  }
  TestPeer peer(thread);
  peer.send(first);
  ASSERT_EQ(store->pending(), 1U);
  store->answers = ScriptedStore::Answers::kAtOnce;
  TestPeer crowd(thread);
  crowd.send(others);
  EXPECT_EQ(crowd.output, at_once(others));
  store->answers = ScriptedStore::Answers::kWhenTold;
  answer_all(peer);
  EXPECT_EQ(peer.output, at_once(first));
}

TEST_F(LaterRepliesTest, OutlivesItsHandlerAndThread) {
  auto peer = std::make_unique<TestPeer>(thread);
  peer->send("SLUICE.CHECK login bob\r\nSLUICE.CHECK 'token_bucket 7/1h' bob\r\n");
  peer.reset();
  thread.reset();
  EXPECT_EQ(store->held_spaces(), 2U);
  ASSERT_TRUE(store->answer());
  EXPECT_THAT(store->batches, ElementsAre(2));
  EXPECT_EQ(store->held_spaces(), 0U);
}

}  // namespace
}  // namespace sluice::resp

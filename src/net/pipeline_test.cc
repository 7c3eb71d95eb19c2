#include "net/pipeline.h"

#include <string>

#include "net/pipeline_fixture_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

using PipelineTest = PipelineFixture;

TEST_F(PipelineTest, GreetsBeforeItAsks) {
  FakeServer server;
  user_.greets = "hello\nselect 1\n";
  user_.greeting_count = 2;
  Question& first = question("first\n");
  open(patient(server.endpoint()));
  ask({&first});
  Peer peer = server.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  EXPECT_EQ(peer.line(), "select 1\n");
  peer.send("+welcome\n");
  settle();
  EXPECT_EQ(peer.unread_bytes(), 0U);
  EXPECT_EQ(user_.ups, 0U);
  peer.send("+selected\n");
  EXPECT_EQ(peer.line(), "first\n");
  peer.send("1\n");
  ASSERT_TRUE(first.await_end());
  EXPECT_EQ(first.answer, "1\n");
  EXPECT_THAT(user_.greeted, ElementsAre("0 +welcome\n", "1 +selected\n"));
  EXPECT_EQ(user_.ups, 1U);
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(PipelineTest, NeverHasMoreInFlightThanAllowed) {
  FakeServer server;
  Question* const questions[] = {&question("1\n"), &question("2\n"), &question("3\n"),
                                 &question("4\n")};
  PipelineOptions options = patient(server.endpoint());
  options.max_in_flight = 2;
  open(options);
  Peer peer = server.accept();
  ask({questions[0], questions[1], questions[2], questions[3]});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(peer.await());
    settle();
    EXPECT_EQ(peer.unread_bytes(), i < 3 ? 4U : 2U) << i;
    EXPECT_EQ(peer.line(), std::to_string(i + 1) + "\n");
    peer.send("reply " + std::to_string(i + 1) + "\n");
    ASSERT_TRUE(questions[i]->await_end());
    EXPECT_EQ(questions[i]->answer, "reply " + std::to_string(i + 1) + "\n");
    EXPECT_EQ(questions[i]->thread, thread_.get_id());
    settle();
  }
}

TEST_F(PipelineTest, HalfAReplyIsNone) {
  FakeServer server;
  Peer peer = connect(server);
  Question& whole = question("whole\n");
  Question& half = question("half\n");
  ask({&whole, &half});
  EXPECT_EQ(peer.lines(2), "whole\nhalf\n");
  peer.send("answer\nans");
  peer.close();
  ASSERT_TRUE(half.await_end());
  EXPECT_EQ(whole.answer, "answer\n");
  EXPECT_EQ(half.loss, Loss::kUnknown);
  EXPECT_EQ(half.why, server.endpoint().text() + " closed the connection");
}

TEST_F(PipelineTest, GarbageEndsTheConnection) {
  FakeServer server;
  Peer peer = connect(server);
  Question& first = question("first\n");
  Question& second = question("second\n");
  ask({&first, &second});
  EXPECT_EQ(peer.lines(2), "first\nsecond\n");
  peer.send("!?\nfine\n");
  ASSERT_TRUE(second.await_end());
  EXPECT_EQ(first.loss, Loss::kUnknown);
  EXPECT_EQ(second.loss, Loss::kUnknown);
  EXPECT_EQ(first.why, server.endpoint().text() + " sent what is no reply");
  EXPECT_EQ(peer.line(), "");
  server.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineTest, AReplyThatNobodyAskedForEndsTheConnection) {
  FakeServer server;
  Peer peer = connect(server);
  peer.send("news\n");
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), server.endpoint().text() + " sent a reply that nobody asked for");
  Peer next = server.accept();
  ASSERT_TRUE(await_up(2));
  Question& asked = question("asked\n");
  ask({&asked});
  EXPECT_EQ(next.line(), "asked\n");
  next.send("one\ntwo\n");
  ASSERT_TRUE(await_downs(2));
  EXPECT_EQ(asked.answer, "one\n");
}

TEST_F(PipelineTest, SilenceEndsTheConnection) {
  FakeServer server;
  PipelineOptions options = patient(server.endpoint());
  options.silence_timeout = milliseconds(30);
  open(options);
  Peer peer = server.accept();
  ASSERT_TRUE(await_up());
  Question& asked = question("?\n");
  const auto start = std::chrono::steady_clock::now();
  ask({&asked});
  ASSERT_TRUE(asked.await_end());
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(asked.why, server.endpoint().text() + " has not answered for 30 ms");
  EXPECT_TRUE(peer.ends_in_reset());
  Peer next = server.accept();
  ASSERT_TRUE(await_up(2));
}

// What is given up is not to reach the server later.
TEST_F(PipelineTest, AConnectionThatIsGivenUpWithAQuestionOpenIsReset) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  on_loop([&] { pipeline_->reconnect("127.0.0.1 is of no use"); });
  EXPECT_TRUE(peer.ends_in_reset());
}

TEST_F(PipelineTest, AConnectionOnWhichNothingIsOpenEndsInOrder) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("yes\n");
  ASSERT_TRUE(asked.await_end());
  on_loop([&] { pipeline_->reconnect("127.0.0.1 is of no use"); });
  EXPECT_FALSE(peer.ends_in_reset());
}

TEST_F(PipelineTest, AConnectionThatTheServerHasEndedIsNotReset) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  peer.end();
  ASSERT_TRUE(asked.await_end());
  EXPECT_FALSE(peer.ends_in_reset());
}

TEST_F(PipelineTest, TakesLongRepliesInPieces) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("long\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "long\n");
  const std::string piece(999'999, 'x');
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(peer.send(piece));
  ASSERT_TRUE(peer.send("\n"));
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer.size(), 7 * piece.size() + 1);
}

TEST_F(PipelineTest, AReplyBeyondTheBoundEndsTheConnection) {
  FakeServer server;
  PipelineOptions options = patient(server.endpoint());
  options.max_reply_bytes = 1'000'000;
  open(options);
  Peer peer = server.accept();
  Question& asked = question("long\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "long\n");
  peer.send(std::string(2'000'000, 'x'));
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.why, server.endpoint().text() + " sent a reply longer than 1000000 bytes");
}

TEST_F(PipelineTest, SendsLongQuestionsInPieces) {
  FakeServer server;
  Peer peer = connect(server);
  Question& longest = question(long_line(20'000'000));
  Question& next = question("next\n");
  ask({&longest, &next});
  EXPECT_EQ(peer.skip(20'000'000), 20'000'000U);
  peer.send("1\n");
  EXPECT_EQ(peer.line(), "next\n");
  peer.send("2\n");
  ASSERT_TRUE(next.await_end());
  EXPECT_EQ(longest.answer, "1\n");
  EXPECT_EQ(next.answer, "2\n");
}

TEST_F(PipelineTest, HalfAQuestionMayHaveBeenCarriedOutAndWhatFollowsIsNotAskedFor) {
  FakeServer server;
  Peer peer = connect(server);
  // Longer than what the socket takes from a peer that does not read.
  Question& begun = question(long_line(40'000'000));
  Question& next = question("next\n");
  ask({&begun, &next});
  ASSERT_TRUE(peer.await());
  peer.reset();
  ASSERT_TRUE(begun.await_end());
  EXPECT_EQ(begun.loss, Loss::kUnknown);
  EXPECT_EQ(server.accept().line(), "next\n");
}

TEST_F(PipelineTest, LooksBeforeItSendsOnAnIdleConnection) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("?\n");
  on_loop([&] {
    // The loop itself cannot have noticed.
    peer.close();
    board_.change([&] { user_.waiting.push_back(&asked); });
    pipeline_->kick();
  });
  Peer next = server.accept();
  EXPECT_EQ(next.line(), "?\n");
  next.send("yes\n");
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer, "yes\n");
}

TEST_F(PipelineTest, RepliesSentBeforeTheEndCount) {
  FakeServer server;
  Peer peer = connect(server);
  Question& first = question("first\n");
  Question& second = question("second\n");
  ask({&first});
  EXPECT_EQ(peer.line(), "first\n");
  on_loop([&] {
    peer.send("1\n");
    peer.reset();
    board_.change([&] { user_.waiting.push_back(&second); });
    pipeline_->kick();
  });
  ASSERT_TRUE(first.await_end());
  EXPECT_EQ(first.answer, "1\n");
  Peer next = server.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineTest, CallbacksMayKickAndReconnect) {
  FakeServer server;
  Peer peer = connect(server);
  Question& first = question("first\n");
  Question& second = question("second\n");
  Question& third = question("third\n");
  user_.when_down = [&] {
    pipeline_->kick();
    pipeline_->reconnect("nothing, for it is down");
  };
  first.then = [&] {
    pipeline_->kick();
    pipeline_->reconnect("first has had enough");
    pipeline_->reconnect("twice");
  };
  second.then = [&] {
    pipeline_->reconnect("nothing, for it is down");
    board_.change([&] { user_.waiting.push_back(&third); });
    pipeline_->kick();
  };
  ask({&first, &second});
  EXPECT_EQ(peer.lines(2), "first\nsecond\n");
  peer.send("1\n2\n");
  ASSERT_TRUE(second.await_end());
  EXPECT_EQ(first.answer, "1\n");
  EXPECT_EQ(second.loss, Loss::kUnknown);
  EXPECT_EQ(server.accept().line(), "third\n");
  EXPECT_EQ(downs().at(0), "first has had enough");
}

TEST_F(PipelineTest, AQuestionForWhichThereIsNoMemoryIsNotSent) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("asked\n");
  Question& too_long = question("too long\n");
  too_long.too_long = true;
  ask({&asked, &too_long});
  ASSERT_TRUE(too_long.await_end());
  EXPECT_EQ(too_long.loss, Loss::kUnsent);
  EXPECT_EQ(too_long.why,
            "the connection to " + server.endpoint().text() + " was given up: std::bad_alloc");
  EXPECT_EQ(asked.endings, 1);
  EXPECT_EQ(peer.line(), "");
  EXPECT_TRUE(await_up(2));
}

}  // namespace
}  // namespace sluice

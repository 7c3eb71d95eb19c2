#include <atomic>
#include <string>

#include "net/pipeline.h"
#include "net/pipeline_fixture_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;
using Here = Pipeline::Here;

class PipelineHereTest : public PipelineFixture {
 protected:
  /// run_here() on a thread of its own.
  std::future<Here> run(Question& question, milliseconds wait = kNever) {
    return std::async(std::launch::async, [this, &question, wait] {
      question.caller = std::this_thread::get_id();
      return pipeline_->run_here(question, in(wait));
    });
  }
};

TEST_F(PipelineHereTest, TheCallerIsAnsweredOnItsOwnThread) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  for (int i = 0; i < 3; ++i) {
    Question& asked = question("here\n");
    std::future<Here> here = run(asked);
    EXPECT_EQ(peer.line(), "here\n");
    peer.send("yes\n");
    EXPECT_EQ(here.get(), Here::kDone);
    EXPECT_EQ(asked.answer, "yes\n");
    EXPECT_EQ(asked.thread, asked.caller);
    EXPECT_EQ(asked.endings, 1);
  }
}

TEST_F(PipelineHereTest, TheLoopAndItsGuestsTakeTurns) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  for (int i = 0; i < 4; ++i) {
    Question& asked = question("here\n");
    std::future<Here> here = run(asked);
    EXPECT_EQ(peer.line(), "here\n");
    peer.send("from here\n");
    EXPECT_EQ(here.get(), Here::kDone);
    Question& there = question("there\n");
    ask({&there});
    EXPECT_EQ(peer.line(), "there\n");
    peer.send("from there\n");
    ASSERT_TRUE(there.await_end());
    EXPECT_EQ(there.answer, "from there\n");
    EXPECT_EQ(there.thread, thread_.get_id());
    settle();
  }
}

TEST_F(PipelineHereTest, ItIsBusyUnlessUpAndIdle) {
  FakeServer server;
  user_.greets = "hello\n";
  user_.greeting_count = 1;
  Question& never = question("never\n");
  open(patient(server.endpoint()));
  Peer peer = server.accept();
  EXPECT_EQ(pipeline_->run_here(never, in(kNever)), Here::kBusy);
  EXPECT_EQ(peer.line(), "hello\n");
  peer.send("+hello\n");
  ASSERT_TRUE(await_up());
  Question& there = question("there\n");
  ask({&there});
  EXPECT_EQ(pipeline_->run_here(never, in(kNever)), Here::kBusy);
  EXPECT_EQ(peer.line(), "there\n");
  peer.send("yes\n");
  ASSERT_TRUE(there.await_end());
  settle();
  Question& here = question("here\n");
  std::future<Here> first = run(here);
  EXPECT_EQ(peer.line(), "here\n");
  EXPECT_EQ(pipeline_->run_here(never, in(kNever)), Here::kBusy);
  peer.send("yes\n");
  EXPECT_EQ(first.get(), Here::kDone);
  EXPECT_EQ(never.endings, 0);
}

TEST_F(PipelineHereTest, ALateReplyReachesTheLoop) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& late = question("late\n");
  EXPECT_EQ(pipeline_->run_here(late, in(milliseconds(5))), Here::kHandedOver);
  EXPECT_EQ(late.endings, 0);
  EXPECT_EQ(peer.line(), "late\n");
  peer.send("at la");
  settle();
  peer.send("st\n");
  ASSERT_TRUE(late.await_end());
  EXPECT_EQ(late.answer, "at last\n");
  EXPECT_EQ(late.thread, thread_.get_id());
}

TEST_F(PipelineHereTest, WhatTheCallerHasReadIsNotLost) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& halved = question("halved\n");
  std::future<Here> here = run(halved, milliseconds(50));
  EXPECT_EQ(peer.line(), "halved\n");
  peer.send("two ");
  EXPECT_EQ(here.get(), Here::kHandedOver);
  peer.send("halves\n");
  ASSERT_TRUE(halved.await_end());
  EXPECT_EQ(halved.answer, "two halves\n");
}

TEST_F(PipelineHereTest, ASilentServerIsGivenUpByTheLoop) {
  FakeServer server;
  PipelineOptions options = patient(server.endpoint());
  options.silence_timeout = milliseconds(30);
  open(options);
  Peer peer = server.accept();
  ASSERT_TRUE(await_up());
  settle();
  Question& asked = question("?\n");
  EXPECT_EQ(pipeline_->run_here(asked, in(kNever)), Here::kHandedOver);
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(asked.why, server.endpoint().text() + " has not answered for 30 ms");
}

TEST_F(PipelineHereTest, AQuestionThatDoesNotFitAtOnceIsHandedOver) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& longest = question(long_line(20'000'000));
  EXPECT_EQ(pipeline_->run_here(longest, in(kNever)), Here::kHandedOver);
  EXPECT_EQ(peer.skip(20'000'000), 20'000'000U);
  peer.send("yes\n");
  ASSERT_TRUE(longest.await_end());
  EXPECT_EQ(longest.answer, "yes\n");
}

TEST_F(PipelineHereTest, AQuestionForWhichThereIsNoMemoryIsNotSent) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& too_long = question("too long\n");
  too_long.too_long = true;
  EXPECT_EQ(pipeline_->run_here(too_long, in(kNever)), Here::kHandedOver);
  ASSERT_TRUE(too_long.await_end());
  EXPECT_EQ(too_long.loss, Loss::kUnsent);
  EXPECT_EQ(peer.line(), "");
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineHereTest, ALostConnectionIsTheLoopsAffair) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  for (const std::string what : {"", "half", "!\n"}) {
    Question& asked = question("?\n");
    std::future<Here> here = run(asked);
    EXPECT_EQ(peer.line(), "?\n");
    peer.send(what);
    if (what != "!\n") peer.close();
    EXPECT_EQ(here.get(), Here::kHandedOver);
    ASSERT_TRUE(asked.await_end());
    EXPECT_EQ(asked.loss, Loss::kUnknown);
    EXPECT_EQ(asked.why, server.endpoint().text() +
                             (what == "!\n" ? " sent what is no reply" : " closed the connection"));
    peer = server.accept();
    on_loop([&] { pipeline_->kick(); });
    ASSERT_TRUE(board_.wait([&] { return user_.ups == user_.downs.size() + 1; }));
    settle();
  }
}

TEST_F(PipelineHereTest, MoreThanItsReplyEndsTheConnection) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& asked = question("?\n");
  std::future<Here> here = run(asked);
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("yes\nno\n");
  EXPECT_EQ(here.get(), Here::kDone);
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(asked.answer, "yes\n");
  EXPECT_EQ(downs().at(0), server.endpoint().text() + " sent a reply that nobody asked for");
}

TEST_F(PipelineHereTest, NothingIsSentOnAConnectionThatHasEnded) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& never = question("never\n");
  Here here = Here::kDone;
  on_loop([&] {
    // The loop itself cannot have noticed.
    peer.close();
    here = pipeline_->run_here(never, in(kNever));
  });
  EXPECT_EQ(here, Here::kBusy);
  EXPECT_EQ(never.endings, 0);
  Peer next = server.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineHereTest, AnIdleConnectionThatWasLentIsRenewedToo) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& asked = question("?\n");
  std::future<Here> here = run(asked);
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("yes\n");
  EXPECT_EQ(here.get(), Here::kDone);
  peer.close();
  Peer next = server.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineHereTest, WhatTheLoopWantsToSendWaitsForTheReturn) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& here = question("here\n");
  Question& there = question("there\n");
  std::future<Here> lent = run(here);
  EXPECT_EQ(peer.line(), "here\n");
  ask({&there});
  settle();
  EXPECT_EQ(peer.unread_bytes(), 0U);
  peer.send("1\n");
  EXPECT_EQ(lent.get(), Here::kDone);
  EXPECT_EQ(peer.line(), "there\n");
  peer.send("2\n");
  ASSERT_TRUE(there.await_end());
  EXPECT_EQ(here.answer, "1\n");
  EXPECT_EQ(there.answer, "2\n");
}

TEST_F(PipelineHereTest, ReconnectWaitsForTheReturnToo) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& here = question("here\n");
  std::future<Here> lent = run(here);
  EXPECT_EQ(peer.line(), "here\n");
  on_loop([&] { pipeline_->reconnect("127.0.0.1 is of no use"); });
  peer.send("1\n");
  EXPECT_EQ(lent.get(), Here::kDone);
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre("127.0.0.1 is of no use"));
}

TEST_F(PipelineHereTest, AReplyMayKickAndReconnect) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& kicks = question("kicks\n");
  Question& there = question("there\n");
  kicks.then = [&] {
    board_.change([&] { user_.waiting.push_back(&there); });
    pipeline_->kick();
  };
  std::future<Here> lent = run(kicks);
  EXPECT_EQ(peer.line(), "kicks\n");
  peer.send("1\n");
  EXPECT_EQ(lent.get(), Here::kDone);
  EXPECT_EQ(peer.line(), "there\n");
  peer.send("2\n");
  ASSERT_TRUE(there.await_end());
  settle();
  Question& leaves = question("leaves\n");
  leaves.then = [&] { pipeline_->reconnect("127.0.0.1 only reads"); };
  lent = run(leaves);
  EXPECT_EQ(peer.line(), "leaves\n");
  peer.send("3\n");
  EXPECT_EQ(lent.get(), Here::kDone);
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre("127.0.0.1 only reads"));
}

TEST_F(PipelineHereTest, DestructionWaitsForTheCaller) {
  FakeServer server;
  Peer peer = connect(server);
  settle();
  Question& here = question("here\n");
  std::future<Here> lent = run(here, milliseconds(30));
  EXPECT_EQ(peer.line(), "here\n");
  close();
  EXPECT_EQ(lent.get(), Here::kHandedOver);
  EXPECT_EQ(here.endings, 1);
  EXPECT_EQ(here.loss, Loss::kUnknown);
  EXPECT_EQ(here.why,
            "the connection to " + server.endpoint().text() + " was closed by its own side");
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(PipelineHereTest, EveryQuestionOfManyThreadsGetsItsOwnAnswer) {
  constexpr int kThreads = 4;
  constexpr int kQuestions = 300;
  FakeServer server;
  Peer peer = connect(server);
  std::thread echo([&peer] {
    for (std::string line = peer.line(); !line.empty(); line = peer.line()) peer.send(line);
  });
  std::atomic<int> here = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < kQuestions; ++n) {
        const std::string text = std::to_string(i) + " asks " + std::to_string(n) + "\n";
        Question asked(board_, text);
        // Some come too late, so that all ways are gone.
        const auto wait = n % 7 == 0 ? milliseconds(0) : kNever;
        // Half of the threads insist, so that the loop and its guests alternate.
        Here how = Here::kBusy;
        do {
          how = pipeline_->run_here(asked, in(wait));
          if (how == Here::kBusy) std::this_thread::yield();
        } while (how == Here::kBusy && i % 2 == 0);
        if (how == Here::kDone) ++here;
        if (how == Here::kBusy) {
          board_.change([&] { user_.waiting.push_back(&asked); });
          loop_.post([this] { pipeline_->kick(); });
        }
        ASSERT_TRUE(asked.await_end());
        ASSERT_EQ(asked.answer, text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(here.load(), 0);
  EXPECT_THAT(downs(), IsEmpty());
  close();
  echo.join();
}

}  // namespace
}  // namespace sluice

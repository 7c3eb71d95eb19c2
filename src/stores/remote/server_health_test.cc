// What is known of a server, and what the store tells of all its servers.

#include "stores/remote/server_health.h"

#include <gtest/gtest.h>

#include "servers/await.h"
#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using Clock = ServerHealth::Clock;
using State = StoreHealth::State;

constexpr std::string_view kLost = "one closed the connection";
constexpr std::string_view kRefused = "cannot connect to one";

class ServerHealthTest : public testing::Test {
 protected:
  std::string_view why_not() const { return one_.why_not(*idle_, Clock::now()); }
  StoreHealth health() const {
    StoreHealth health;
    monitor_.add_to(health);
    return health;
  }
  // The thread looks for replies all the time.
  void reply(int times, std::chrono::nanoseconds round_trip) {
    for (int i = 0; i < times; ++i) {
      const Clock::time_point sent;
      monitor_.on_all_read(sent + round_trip);
      monitor_.on_reply(sent, sent + round_trip);
    }
  }

  StoreMonitor monitor_{10ms};
  ServerHealth one_{"one", 10ms, &monitor_};
  IoContext context_;
  Board board_;
  LineUser user_{board_};
  std::shared_ptr<RequestPipeline> idle_ = RequestPipeline::make(context_, {}, user_);
};

TEST_F(ServerHealthTest, ALostConnectionIsWaitedForUntilAnAttemptFails) {
  EXPECT_EQ(why_not(), "") << "nor is the first one lost";
  one_.on_up();
  one_.on_down(kLost);
  EXPECT_FALSE(one_.is_broken());
  EXPECT_EQ(why_not(), "");
  EXPECT_EQ(health().state, State::kUp);
  one_.on_down(kRefused);
  EXPECT_TRUE(one_.is_broken());
  EXPECT_EQ(why_not(), kRefused);
  EXPECT_EQ(health().state, State::kDown);
  one_.on_up();
  EXPECT_FALSE(one_.is_broken());
  EXPECT_EQ(why_not(), "");
  EXPECT_EQ(health().state, State::kUp);
  // What was before the handshake no longer counts.
  one_.on_down(kLost);
  EXPECT_FALSE(one_.is_broken());
}

TEST_F(ServerHealthTest, AConnectionThatWasGivenUpIsNotWaitedFor) {
  one_.on_up();
  one_.give_up();
  EXPECT_EQ(why_not(), "");
  one_.on_down(kLost);
  EXPECT_TRUE(one_.is_broken());
  one_.on_up();
  one_.on_down(kLost);
  EXPECT_FALSE(one_.is_broken());
}

TEST_F(ServerHealthTest, ACommandLostLongAfterItWasSentBreaksIt) {
  one_.on_up();
  one_.on_lost(Clock::now() + 1min);
  one_.on_down(kLost);
  EXPECT_FALSE(one_.is_broken());
  one_.on_up();
  one_.on_lost(Clock::now() - 1min);
  one_.on_lost(Clock::now() + 1min);
  one_.on_down(kLost);
  EXPECT_TRUE(one_.is_broken());
}

TEST(ServerHealth, AConnectionIsGivenUpAfterTwoDeadlinesButNotAtOnce) {
  const Endpoint endpoint{.host = "h", .port = 1};
  const auto options = [&](std::chrono::milliseconds deadline) {
    return ServerHealth("x", deadline).pipeline_options(endpoint, 3);
  };
  EXPECT_EQ(options(10ms).silence_timeout, PipelineOptions().silence_timeout);
  EXPECT_EQ(options(10ms).handshake_timeout, 1s);
  EXPECT_EQ(options(2s).silence_timeout, 4s);
  EXPECT_EQ(options(2s).handshake_timeout, 4s);
  EXPECT_EQ(options(1min).handshake_timeout, 5s);
  EXPECT_EQ(options(2s).endpoint, endpoint);
  EXPECT_EQ(options(2s).max_in_flight, 3U);
}

class SilentServer : public RequestPipelineFixture {};

TEST_F(SilentServer, IsNotWaitedForAfterTwoDeadlinesUnlessItsReplyIsUnread) {
  const ServerHealth health("x", 10ms);
  FakeServer server;
  Peer peer = connect(server);
  ask_on(peer);
  on_thread([&] {
    const Clock::time_point sent = pipeline_->waiting_since().value();
    EXPECT_EQ(health.why_not(*pipeline_, sent + 20ms), "");
    const auto why_not = [&] { return health.why_not(*pipeline_, sent + 20ms + 1ns); };
    EXPECT_EQ(why_not(), "x has not answered for a while");
    EXPECT_FALSE(health.is_broken());
    EXPECT_TRUE(peer.send("!\n"));
    // This process had no processor time: the server was in time.
    servers::await("its arrival", [&] { return why_not().empty(); });
  });
}

TEST_F(ServerHealthTest, AStoreIsUpOnceAllItsServersAre) {
  ServerHealth two("two", 10ms, &monitor_);
  EXPECT_EQ(health().state, State::kConnecting);
  EXPECT_EQ(health().deadline, 10ms);
  one_.on_up();
  EXPECT_EQ(health().state, State::kConnecting);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  ServerHealth three("three", 10ms, &monitor_);
  one_.on_up();
  EXPECT_EQ(health().state, State::kUp) << "a server that is added is not lost";
}

TEST_F(ServerHealthTest, AStoreIsDownAsLongAsOneOfItsServersIs) {
  ServerHealth two("two", 10ms, &monitor_);
  one_.on_up();
  two.on_down("two is away");
  EXPECT_EQ(health().state, State::kDown);
  EXPECT_EQ(health().reason, "two is away");
  EXPECT_EQ(health().times_lost, 1U);
  const auto since = health().since;
  two.on_down("two is still away");
  EXPECT_EQ(health().reason, "two is still away");
  EXPECT_EQ(health().since, since);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  EXPECT_GE(health().since, since);
  EXPECT_EQ(health().times_lost, 1U);
}

// Whichever of them it is, and while attempts to reach all of them go on failing.
TEST_F(ServerHealthTest, OfLostServersItTellsTheOneThatWasLostLast) {
  ServerHealth two("two", 10ms, &monitor_);
  ServerHealth three("three", 10ms, &monitor_);
  const auto servers = {&one_, &two, &three};
  for (ServerHealth* last : servers) {
    for (ServerHealth* server : servers) server->on_up();
    const auto fail_others = [&] {
      for (ServerHealth* server : servers) {
        if (server != last) server->on_down("another is away");
      }
    };
    fail_others();
    fail_others();
    last->on_down("the last closed");
    last->on_down("the last is away");
    fail_others();
    EXPECT_EQ(health().reason, "the last is away");
    last->on_up();
    EXPECT_EQ(health().reason, "another is away");
  }
}

TEST_F(ServerHealthTest, AServerThatIsNotUsedAnyMoreDoesNotCount) {
  one_.on_up();
  {
    ServerHealth former("former", 10ms, &monitor_);
    former.on_down("former is away");
    EXPECT_EQ(health().state, State::kDown);
  }
  EXPECT_EQ(health().state, State::kUp);
}

TEST_F(ServerHealthTest, RoundTripsAreThoseOfTheLastReplies) {
  reply(2000, 9ms);
  reply(1000, 1ms);
  reply(24, 5ms);
  EXPECT_EQ(health().round_trip_p50, 1ms);
  EXPECT_EQ(health().round_trip_p99, 5ms);
}

TEST_F(ServerHealthTest, EightLateRepliesInARowAreNotedOnce) {
  reply(7, 12ms);
  reply(1, 10ms);  // In time.
  reply(7, 12ms);
  EXPECT_EQ(health().times_late, 0U);
  EXPECT_EQ(health().late_replies, 14U);
  reply(1, 13ms);
  EXPECT_EQ(health().times_late, 1U);
  EXPECT_EQ(health().late_round_trip, 13ms);
  EXPECT_EQ(health().sufficient_deadline, 26ms);
  reply(100, 12ms);
  reply(7, 1ms);
  reply(8, 12ms);
  EXPECT_EQ(health().times_late, 1U);
  reply(8, 1ms);
  reply(8, 12ms);
  EXPECT_EQ(health().times_late, 2U);
  EXPECT_EQ(health().late_round_trip, 12ms);
}

// The reply may have been there in time.
TEST_F(ServerHealthTest, WhatAThreadReadsLateSaysNothingOfTheStore) {
  const Clock::time_point sent;
  monitor_.on_all_read(sent + 8ms);
  for (int i = 0; i < 8; ++i) monitor_.on_reply(sent, sent + 50ms);
  EXPECT_EQ(health().times_late, 0U);
  EXPECT_EQ(health().late_replies, 0U);
}

}  // namespace
}  // namespace sluice

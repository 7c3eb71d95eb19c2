#include "stores/remote/server_health.h"

#include <gtest/gtest.h>

#include "servers/await.h"
#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using Clock = ServerHealth::Clock;

constexpr std::string_view kLost = "x closed the connection";
constexpr std::string_view kRefused = "cannot connect to x";

class ServerHealthTest : public testing::Test {
 protected:
  std::string_view why_not() const { return health_.why_not(std::nullopt, Clock::now()); }

  ServerHealth health_{"x", 10ms};
};

TEST_F(ServerHealthTest, ACallerBeforeTheFirstConnectionWaits) {
  EXPECT_FALSE(health_.is_broken());
  EXPECT_EQ(why_not(), "");
}

TEST(ServerHealth, AHandshakeMayTakeTwiceTheDeadline) {
  const auto timeout = [](std::chrono::milliseconds deadline) {
    return ServerHealth("x", deadline).pipeline_options({}, 1).handshake_timeout;
  };
  EXPECT_EQ(timeout(10ms), 1s);
  EXPECT_EQ(timeout(2s), 4s);
  EXPECT_EQ(timeout(1min), 5s);
}

TEST_F(ServerHealthTest, ALostConnectionIsWaitedForUntilAnAttemptFails) {
  health_.on_up();
  health_.on_down(kLost);
  EXPECT_FALSE(health_.is_broken());
  EXPECT_EQ(why_not(), "");
  health_.on_down(kRefused);
  EXPECT_TRUE(health_.is_broken());
  EXPECT_EQ(why_not(), kRefused);
}

TEST_F(ServerHealthTest, AHandshakeMakesItWhole) {
  health_.on_down(kRefused);
  EXPECT_TRUE(health_.is_broken());
  health_.on_up();
  EXPECT_FALSE(health_.is_broken());
  EXPECT_EQ(why_not(), "");
  // What was before the handshake no longer counts.
  health_.on_down(kLost);
  EXPECT_FALSE(health_.is_broken());
}

TEST_F(ServerHealthTest, AConnectionThatWasGivenUpIsNotWaitedFor) {
  health_.on_up();
  health_.give_up();
  EXPECT_EQ(why_not(), "");
  health_.on_down(kLost);
  EXPECT_TRUE(health_.is_broken());
  health_.on_up();
  health_.on_down(kLost);
  EXPECT_FALSE(health_.is_broken());
}

TEST_F(ServerHealthTest, ACommandLostLongAfterItWasSentBreaksIt) {
  health_.on_up();
  health_.on_lost(Clock::now() + 1min);
  health_.on_down(kLost);
  EXPECT_FALSE(health_.is_broken());
  health_.on_up();
  health_.on_lost(Clock::now() - 1min);
  health_.on_lost(Clock::now() + 1min);
  health_.on_down(kLost);
  EXPECT_TRUE(health_.is_broken());
}

TEST_F(ServerHealthTest, ItIsSilentAfterTwoDeadlines) {
  health_.on_up();
  const Clock::time_point sent = Clock::now();
  EXPECT_EQ(health_.why_not(sent, sent + 20ms), "");
  EXPECT_EQ(health_.why_not(sent, sent + 20ms + 1ns), "x has not answered for a while");
  EXPECT_FALSE(health_.is_broken());
}

TEST_F(ServerHealthTest, ASilentConnectionIsGivenUpAfterTwoDeadlinesButNotAtOnce) {
  const Endpoint endpoint{.host = "h", .port = 1};
  const PipelineOptions usual{.endpoint = endpoint};
  EXPECT_EQ(health_.pipeline_options(endpoint, 1).silence_timeout, usual.silence_timeout);
  const PipelineOptions patient = ServerHealth("y", 1s).pipeline_options(endpoint, 3);
  EXPECT_EQ(patient.silence_timeout, 2s);
  EXPECT_EQ(patient.endpoint.host, "h");
  EXPECT_EQ(patient.max_in_flight, 3U);
}

class UnreadReply : public RequestPipelineFixture {};

// This process had no processor time: the server was in time.
TEST_F(UnreadReply, IsNoSilence) {
  const ServerHealth health("x", 10ms);
  FakeServer server;
  Peer peer = connect(server);
  ask_on(peer);
  on_thread([&] {
    const auto why_not = [&] { return health.why_not(*pipeline_, Clock::now() + 1h); };
    EXPECT_EQ(why_not(), "x has not answered for a while");
    EXPECT_TRUE(peer.send("!\n"));
    servers::await("its arrival", [&] { return why_not().empty(); });
  });
}

}  // namespace
}  // namespace sluice

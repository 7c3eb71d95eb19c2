#include "servers/fault_proxy.h"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>

#include "servers/await.h"
#include "servers/redis_server.h"
#include "servers/resp_client.h"

namespace sluice::servers {
namespace {

class ThroughAProxy : public testing::Test {
 protected:
  std::string counted() const { return server_.command({"GET", "n"}); }

  RedisServer server_;
  FaultProxy proxy_{server_.port()};
  RespClient client_{proxy_.port()};
  const std::string incr_ = encode_command({"INCR", "n"});
};

TEST_F(ThroughAProxy, EverythingPasses) {
  const std::string large(3'000'000, 'x');
  EXPECT_EQ(client_.ask({"SET", "k", large}).text, "OK");
  EXPECT_EQ(client_.ask({"GET", "k"}).text, large);
  EXPECT_EQ(proxy_.accepted(), 1U);
}

TEST_F(ThroughAProxy, RepliesAreDelayed) {
  constexpr std::chrono::milliseconds kDelay{30};
  proxy_.delay_replies(kDelay);
  const auto before = std::chrono::steady_clock::now();
  EXPECT_EQ(client_.ask({"INCR", "n"}).text, "1");
  EXPECT_GE(std::chrono::steady_clock::now() - before, kDelay);
  proxy_.pass();
  EXPECT_EQ(client_.ask({"INCR", "n"}).text, "2");
}

TEST_F(ThroughAProxy, DroppedRepliesAreOfExecutedRequests) {
  proxy_.swallow_replies();
  client_.send(incr_);
  await("a reply to swallow", [this] { return proxy_.swallowed_bytes() == 4; });
  EXPECT_EQ(counted(), "1");
  proxy_.pass();
  EXPECT_EQ(client_.ask({"INCR", "n"}).text, "2");
}

TEST_F(ThroughAProxy, RepliesAreEdited) {
  proxy_.edit_replies([](std::string& replies) { replies.insert(0, "+more\r\n"); });
  EXPECT_EQ(client_.ask({"INCR", "n"}).text, "more");
  EXPECT_EQ(client_.read().text, "1");
  proxy_.pass();
  EXPECT_EQ(client_.ask({"INCR", "n"}).text, "2");
}

TEST_F(ThroughAProxy, AStallHoldsBothDirections) {
  proxy_.stall();
  RespClient second(proxy_.port());
  client_.send(incr_);
  second.send(incr_);
  EXPECT_EQ(counted(), "(nil)");
  proxy_.pass();
  EXPECT_EQ(client_.read().text.size(), 1U);
  EXPECT_EQ(second.read().text.size(), 1U);
  EXPECT_EQ(counted(), "2");
}

TEST_F(ThroughAProxy, RefusingKeepsExistingConnections) {
  proxy_.refuse();
  EXPECT_THROW(RespClient{proxy_.port()}, std::runtime_error);
  EXPECT_EQ(client_.ask({"PING"}).text, "PONG");
  proxy_.pass();
  EXPECT_EQ(RespClient(proxy_.port()).ask({"PING"}).text, "PONG");
}

TEST_F(ThroughAProxy, CutsWithinAReply) {
  proxy_.cut_after(5 + 2);  // ":1\r\n" and half of the next.
  client_.send(incr_ + incr_ + incr_);
  EXPECT_EQ(client_.read().text, "1");
  EXPECT_THROW(client_.read(), std::runtime_error);
  EXPECT_EQ(counted(), "3");
  EXPECT_EQ(RespClient(proxy_.port()).ask({"INCR", "n"}).text, "4");
}

TEST_F(ThroughAProxy, CutsEveryConnectionNow) {
  EXPECT_EQ(client_.ask({"PING"}).text, "PONG");
  proxy_.cut_now();
  EXPECT_THROW(client_.ask({"PING"}), std::runtime_error);
  EXPECT_EQ(RespClient(proxy_.port()).ask({"PING"}).text, "PONG");
}

TEST_F(ThroughAProxy, ALostServerClosesTheConnection) {
  server_.kill();
  EXPECT_THROW(client_.ask({"PING"}), std::runtime_error);
  EXPECT_THROW(RespClient(proxy_.port()).ask({"PING"}), std::runtime_error);
  server_.restart();
  EXPECT_EQ(RespClient(proxy_.port()).ask({"PING"}).text, "PONG");
}

}  // namespace
}  // namespace sluice::servers

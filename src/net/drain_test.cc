#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <future>
#include <string>
#include <vector>

#include "testing/line_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kPatience{10};

class DrainTest : public testing::Test {
 protected:
  DrainTest() { server_.start(); }

  Address address() const { return server_.addresses()[0]; }
  std::future<void> drain() {
    return std::async(std::launch::async, [&] { server_.drain(kPatience); });
  }
  static bool is_done(const std::future<void>& draining) {
    return draining.wait_for(milliseconds(0)) == std::future_status::ready;
  }

  StreamServer server_ = make_server(
      any_port(), {.threads = 2, .limits = {.linger_timeout = std::chrono::seconds(60)}});
};

TEST_F(DrainTest, ClosesEachConnectionAfterItsReply) {
  std::vector<Client> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back(address());
    ASSERT_TRUE(clients.back().echoes("before\n"));
  }
  const std::future<void> draining = drain();
  for (Client& client : clients) {
    EXPECT_FALSE(is_done(draining));
    // Connections that have not been told to leave are answered and stay.
    while (client.echoes("now\n")) {
    }
    EXPECT_EQ(client.read_all(), "");
  }
  EXPECT_EQ(draining.wait_for(kPatience / 2), std::future_status::ready);
}

// A turn is shorter than what this handler does after each reply, in which it writes nothing.
TEST(DrainTurns, AReplyCountsAfterTheEndOfItsTurn) {
  const MakeHandler make =
      handlers_calling([until = Clock::time_point()](LineHandler& lines, std::string_view input,
                                                     std::string& output) mutable {
        auto progress = lines.on_data(input, output);
        if (!output.empty()) until = Clock::now() + milliseconds(2);
        if (Clock::now() < until) progress.next = StreamHandler::Next::kMore;
        return progress;
      });
  StreamServer server({{any_port(), make, ""}}, {});
  server.start();
  Client client(server.addresses()[0]);
  ASSERT_TRUE(client.echoes("before\n"));
  const auto draining = std::async(std::launch::async, [&] { server.drain(kPatience); });
  // A request that comes before the handler is done must be answered first.
  const auto has_ended = [&] {
    pollfd event{.fd = client.fd(), .events = POLLIN, .revents = 0};
    return ::poll(&event, 1, 20) == 1;
  };
  int replies = 0;
  // Patience: the thread that drains may be held up.
  while (replies < 500 && client.echoes("now\n") && !has_ended()) ++replies;
  EXPECT_LT(replies, 500);
}

// If a part of a request has arrived after others, the server waits for its rest.
TEST_F(DrainTest, AnswersWholeRequests) {
  Client client(address());
  ASSERT_TRUE(client.echoes("before\n"));
  const std::future<void> draining = drain();
  while (client.send("x\nli") && client.read(2) == "x\n") {
    ASSERT_TRUE(client.send("ne\n"));
    ASSERT_EQ(client.read(5), "line\n");
  }
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(DrainTest, ServesNewPeersAsBefore) {
  Client idle(address());
  ASSERT_TRUE(idle.echoes("before\n"));
  const std::future<void> draining = drain();
  for (int i = 0; i < 10; ++i) {
    Client client(address());
    ASSERT_TRUE(client.echoes("a\n"));
  }
  EXPECT_FALSE(is_done(draining));
  idle.end();
  EXPECT_EQ(draining.wait_for(kPatience / 2), std::future_status::ready);
  Client client(address());
  EXPECT_TRUE(client.echoes("a\n"));
  EXPECT_TRUE(client.echoes("b\n"));
}

TEST_F(DrainTest, WaitsForNothingWhereNoneIsConnected) {
  const auto start = Clock::now();
  server_.drain(kPatience);
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

// A client that keeps its connection and checks it only before its next request.
TEST_F(DrainTest, DoesNotWaitForPeersThatDoNotNoticeTheEnd) {
  std::vector<Client> clients;
  for (int i = 0; i < 4; ++i) {
    clients.emplace_back(address());
    ASSERT_TRUE(clients.back().echoes("before\n"));
  }
  auto draining = drain();
  for (Client& client : clients) {
    while (client.echoes("now\n")) {
    }
  }
  draining.get();
  const auto start = Clock::now();
  server_.stop(milliseconds(10'000));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace sluice

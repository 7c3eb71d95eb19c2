#include "net/client_memory.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <memory>
#include <string>

#include "servers/await.h"
#include "testing/line_server.h"

namespace sluice {
namespace {

/// Lines as LineHandler; after "hold N" the handler holds N bytes, as it does after "work N", which
/// it never has done; after "wait" it waits until another connection sends "wake".
class HoldingHandler final : public LineHandler {
 public:
  HoldingHandler(Wake wake, Wake& of_waiting) : wake_(std::move(wake)), of_waiting_(of_waiting) {}

  Progress on_data(std::string_view input, std::string& output) override {
    if (input.starts_with("hold ")) held_ = std::stoul(std::string(input.substr(5)));
    if (input.starts_with("work ")) {
      held_ = std::stoul(std::string(input.substr(5)));
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(2);
      while (std::chrono::steady_clock::now() < end) {  // Longer than a turn.
      }
      return {.next = Next::kMore};
    }
    if (input.starts_with("wake\n")) of_waiting_();
    if (input.starts_with("wait\n")) {
      of_waiting_ = wake_;
      return {.consumed = 5, .next = Next::kLater};
    }
    return LineHandler::on_data(input, output);
  }
  std::size_t held_bytes() const override { return held_; }

 private:
  const Wake wake_;
  Wake& of_waiting_;
  std::size_t held_ = 0;
};

constexpr std::size_t kMostHeld = 1024 * 1024;

class ClientMemoryTest : public StreamServerFixture {
 protected:
  ClientMemoryTest() {
    Service service = line_service([this](const AcceptedStream& stream) {
      return std::make_unique<HoldingHandler>(stream.wake, of_waiting_);
    });
    service.on_event = [this](ConnectionEvent why) {
      if (why == ConnectionEvent::kNoMemory) ++refused_;
    };
    listen({service}, {.max_bytes = kMostHeld});
  }

  void await_refused(int least) const {
    servers::await("refusals", [&] { return refused_ >= least; });
  }

  std::atomic<int> refused_ = 0;
  Wake of_waiting_;  // Used by the only serving thread.
};

// Beyond three quarters of the bound there is room for no buffer of 96 KiB.
TEST_F(ClientMemoryTest, RefusesSomeOfThoseWhoseRequestsAreLongAndDoNotEnd) {
  constexpr int kClients = 20;
  constexpr int kMostServed = 6;
  const std::string line(90'000, 'x');
  std::deque<Client> clients;
  for (int i = 0; i < kClients; ++i) {
    ASSERT_TRUE(clients.emplace_back(address()).send(line));
  }
  server_->start();
  await_refused(kClients - kMostServed);
  EXPECT_TRUE(Client(address()).echoes("others are served\n"));
  int served = 0;
  for (Client& client : clients) {
    ASSERT_TRUE(client.send("\n"));
    const std::string reply = client.read(10);
    if (reply == "xxxxxxxxxx") {
      ++served;
    } else {
      EXPECT_EQ(reply + client.read_all(), "no memory\n");
    }
  }
  EXPECT_EQ(served, kClients - refused_);
  EXPECT_GE(served, 1);
  clients.clear();
  EXPECT_TRUE(Client(address()).echoes(line + "\n"));
}

// Also not if each of its reads fills the buffer: what is answered takes no room.
TEST_F(ClientMemoryTest, ServesPipelinesOfShortRequestsWhileThereIsNoRoom) {
  server_->start();
  server_->set_max_bytes(0);
  std::string lines;
  while (lines.size() < 1'000'000) lines += "big 0\n";
  Client client(address());
  ASSERT_TRUE(client.send(lines));
  EXPECT_TRUE(client.echoes("all are answered\n"));
  ASSERT_TRUE(client.send("wait\n" + lines.substr(0, 120'000) + "end\n"));
  Client other(address());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(other.echoes("served meanwhile\n"));
  ASSERT_TRUE(other.echoes("wake\n"));
  EXPECT_EQ(client.read(4), "end\n");
}

// Its turn has been cut short: it owes no reply that another could precede.
TEST_F(ClientMemoryTest, TellsAConnectionThatHasMoreToDo) {
  server_->start();
  Client client(address());
  ASSERT_TRUE(client.send("work " + std::to_string(kMostHeld / 4) + "\n"));
  EXPECT_EQ(client.read_all(), "no memory\n");
}

// What has been made is not sent first: then it would have to be kept for as long.
TEST_F(ClientMemoryTest, ClosesAtOnceWhereRepliesAreNotRead) {
  server_->start();
  Client client(address(), 4096);
  ASSERT_TRUE(client.send("big 5000000\n"));
  await_refused(1);
  const std::string reply = client.read_all();
  EXPECT_LT(reply.size(), 5'000'000U);
  EXPECT_EQ(reply.find_first_not_of('x'), std::string::npos);
}

TEST_F(ClientMemoryTest, ClosesNoConnectionOfAReserve) {
  server_->start();
  server_->replace({{.address = any_port(), .make_handler = line_handlers(), .reserve = 1}}, [] {});
  server_->set_max_bytes(0);
  const std::string line = std::string(90'000, 'x') + "\n";
  Client reserved(address());
  EXPECT_TRUE(reserved.echoes(line));
  EXPECT_FALSE(Client(address()).echoes(line)) << "one more than the reserve";
  EXPECT_TRUE(reserved.echoes(line));
}

TEST_F(ClientMemoryTest, CountsWhatHandlersHoldAndHasABoundThatCanChange) {
  server_->start();
  const std::string much = "hold " + std::to_string(kMostHeld / 4) + "\n";
  Client client(address());
  ASSERT_TRUE(client.send(much));
  EXPECT_EQ(client.read_all(), much + "no memory\n");
  server_->set_max_bytes(2 * kMostHeld);
  for (int i = 0; i < 10; ++i) {  // What a connection held is free again when it has ended.
    Client other(address());
    ASSERT_TRUE(other.send(much));
    other.end();
    EXPECT_EQ(other.read_all(), much);
  }
}

}  // namespace
}  // namespace sluice

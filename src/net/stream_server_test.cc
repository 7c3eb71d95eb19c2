#include "net/stream_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <future>
#include <memory>
#include <new>

#include "net/line_server_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

class StreamServerTest : public testing::Test {
 protected:
  void serve(const StreamServerOptions& options = {}) {
    server_ = std::make_unique<StreamServer>(
        std::vector<Service>{{any_port(), line_handlers(), "no room\n"}}, options);
    server_->start();
  }
  Address address() const { return server_->addresses()[0]; }

  std::unique_ptr<StreamServer> server_;
};

TEST_F(StreamServerTest, AnswersLinesHoweverTheyAreCut) {
  serve();
  Client client(address());
  for (const char* piece : {"he", "ll", "o\nwo", "rld\n"}) ASSERT_TRUE(client.send(piece));
  EXPECT_EQ(client.read(12), "hello\nworld\n");
}

TEST_F(StreamServerTest, AnswersAPipelineInOrder) {
  serve({.threads = 2});
  Client client(address());
  std::string lines;
  for (int i = 0; i < 20'000; ++i) lines += std::to_string(i) + "\n";
  auto sending = std::async(std::launch::async, [&] { return client.send(lines); });
  EXPECT_EQ(client.read(lines.size()), lines);
  EXPECT_TRUE(sending.get());
}

TEST_F(StreamServerTest, ServesManyOnEveryThread) {
  std::atomic<unsigned> threads_used = 0;
  const MakeHandler factory = [&](std::size_t thread, const Wake&) {
    threads_used |= 1U << thread;
    return std::make_unique<LineHandler>();
  };
  const Address address{Address::Family::kUnix, temporary_path("many.sock"), 0};
  StreamServer server({{address, factory, ""}}, {.threads = 3});
  server.start();
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 9; ++i) {
    clients.push_back(std::make_unique<Client>(address));
    ASSERT_TRUE(clients.back()->echoes("x\n"));
  }
  EXPECT_EQ(threads_used, 7U);
  EXPECT_EQ(server.connections(), 9U);
}

TEST_F(StreamServerTest, AnswersAPeerThatHasEndedItsSide) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("big 5000000\nlast\nunfinished"));
  client.end();
  EXPECT_EQ(client.read_all(), std::string(5'000'000, 'x') + "last\n");
}

TEST_F(StreamServerTest, DeliversTheLastAnswerThoughThePeerStillTalks) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("close\n" + std::string(300'000, 'y')));
  EXPECT_EQ(client.read(4), "bye\n");
  ASSERT_TRUE(client.send("more\n"));
  client.end();
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(StreamServerTest, ClosesAPeerWhoseInputNeverEnds) {
  serve();
  Client client(address());
  client.send(std::string(2 * kMaxInputBytes, 'y'));
  EXPECT_THAT(client.read_all(), testing::AnyOf("", "(reset)"));
}

TEST_F(StreamServerTest, HoldsBackWhatAPeerDoesNotReadAndGoesOnWhenItDoes) {
  serve({.limits = {.max_pending_bytes = 100'000}});
  Client client(address(), 4096);
  std::string lines;
  for (int i = 0; i < 300; ++i) lines += "big 50000\n" + std::to_string(i) + "\n";
  ASSERT_TRUE(client.send(lines));
  std::string expected;
  for (int i = 0; i < 300; ++i) expected += std::string(50'000, 'x') + std::to_string(i) + "\n";
  EXPECT_TRUE(client.read(expected.size()) == expected);
  ASSERT_TRUE(client.echoes("still here\n"));
}

TEST_F(StreamServerTest, ClosesAPeerThatNeverReadsAndKeepsMemoryBounded) {
  std::atomic<std::size_t> answered_bytes = 0;
  class Counting : public LineHandler {
   public:
    explicit Counting(std::atomic<std::size_t>& bytes) : bytes_(bytes) {}
    Progress on_data(std::string_view input, std::string& output) override {
      const std::size_t before = output.size();
      const Progress progress = LineHandler::on_data(input, output);
      bytes_ += output.size() - before;
      return progress;
    }

   private:
    std::atomic<std::size_t>& bytes_;
  };
  const MakeHandler factory = [&](std::size_t, const Wake&) {
    return std::make_unique<Counting>(answered_bytes);
  };
  StreamServer server({{any_port(), factory, ""}}, {.limits = {.max_pending_bytes = 1 << 20,
                                                               .stuck_timeout = milliseconds(50)}});
  server.start();
  Client client(server.addresses()[0], 4096);
  const std::string line = "big 1000\n";
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += line;
  int rounds = 0;
  while (rounds < 20'000 && client.send(lines)) ++rounds;
  // The peer was closed long before it had sent 180 MB, and what the server had answered is its
  // bound and what the kernel's buffers hold.
  EXPECT_LT(rounds, 20'000);
  EXPECT_LT(answered_bytes, 12U << 20);
  EXPECT_EQ(server.connections(), 0U);
}

TEST_F(StreamServerTest, ClosesOnlyThePeerForWhichMemoryRunsOut) {
  class Greedy : public LineHandler {
   public:
    Progress on_data(std::string_view input, std::string& output) override {
      if (input.starts_with("greed")) {
        output += "lost";
        throw std::bad_alloc();
      }
      return LineHandler::on_data(input, output);
    }
  };
  std::atomic<bool> no_memory = false;
  const MakeHandler factory = [&](std::size_t, const Wake&) {
    if (no_memory) throw std::bad_alloc();
    return std::make_unique<Greedy>();
  };
  StreamServer server({{any_port(), factory, ""}}, {});
  server.start();
  const Address address = server.addresses()[0];
  Client modest(address);
  ASSERT_TRUE(modest.echoes("x\n"));
  Client greedy(address);
  ASSERT_TRUE(greedy.send("greed\n"));
  EXPECT_EQ(greedy.read_all(), "");
  no_memory = true;
  EXPECT_EQ(Client(address).read_all(), "");
  ASSERT_TRUE(modest.echoes("y\n"));
  EXPECT_EQ(server.connections(), 1U);
  // A request that waits while the server stops is no different.
  ASSERT_TRUE(modest.send("greed\n"));
  server.stop(milliseconds(1'000));
  EXPECT_EQ(modest.read_all(), "");
}

TEST_F(StreamServerTest, RefusesOneTooManyAndTakesTheNextWhenOneHasGone) {
  serve({.max_connections = 1});
  auto first = std::make_unique<Client>(address());
  ASSERT_TRUE(first->echoes("x\n"));
  Client second(address());
  EXPECT_EQ(second.read_all(), "no room\n");
  first.reset();
  std::string answer;
  while (answer != "x\n") {  // Until the server has seen the first one go.
    Client third(address());
    third.send("x\n");
    answer = third.read(2);
  }
  EXPECT_EQ(answer, "x\n");
}

TEST_F(StreamServerTest, DoesNotResetWhoSpokeBeforeItWasRefused) {
  StreamServer server = make_server(any_port(), {.max_connections = 1});
  const Client first(server.addresses()[0]);
  Client second(server.addresses()[0]);
  ASSERT_TRUE(second.send("x\n"));
  server.start();
  EXPECT_EQ(second.read_all(), "no room\n");
  // A socket that was reset would take nothing.
  EXPECT_TRUE(second.send("y\n"));
}

TEST_F(StreamServerTest, PausesAcceptingWithoutDescriptorsAndGoesOn) {
  serve();
  Client first(address());
  ASSERT_TRUE(first.echoes("x\n"));
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &few);
  std::vector<UniqueFd> hoard;
  do {
    hoard.emplace_back(::dup(0));
  } while (hoard.back());
  hoard.resize(hoard.size() - 2);  // One is left, for the client.
  Client next(address());
  ASSERT_TRUE(next.connected());
  ASSERT_TRUE(first.echoes("y\n"));
  EXPECT_EQ(server_->connections(), 1U);
  hoard.clear();
  ::setrlimit(RLIMIT_NOFILE, &before);
  ASSERT_TRUE(next.echoes("z\n"));
}

TEST_F(StreamServerTest, StopAnswersWhatHasComeAndSendsWhatWaits) {
  serve();
  Client slow(address());
  Client idle(address());
  ASSERT_TRUE(slow.send("big 20000000\nlast\n"));
  ASSERT_EQ(slow.read(1), "x");
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  EXPECT_EQ(idle.read_all(), "");
  const std::string rest = slow.read_all();
  EXPECT_EQ(rest.size(), 20'000'000U - 1 + 5);
  EXPECT_TRUE(rest.ends_with("xlast\n"));
  stopping.get();
  EXPECT_FALSE(Client(address()).connected());
}

TEST_F(StreamServerTest, StopServesThoseWhoHaveConnected) {
  // More than a worker accepts before it learns that it is to stop.
  constexpr std::size_t kClients = 300;
  const Address local{Address::Family::kUnix, temporary_path("queue.sock"), 0};
  for (const Address& wanted : {any_port(), local}) {
    StreamServer server = make_server(wanted, {.threads = 2});
    const Address address = server.addresses()[0];
    std::vector<Client> clients;
    for (std::size_t i = 0; i < kClients; ++i) {
      clients.emplace_back(address);
      ASSERT_TRUE(clients.back().send("x\n"));
    }
    server.start();
    server.stop(milliseconds(10'000));
    for (Client& client : clients) ASSERT_EQ(client.read_all(), "x\n") << address.text();
    EXPECT_EQ(server.connections(), 0U);
    EXPECT_FALSE(Client(address).connected());
  }
}

TEST_F(StreamServerTest, StopDoesNotWaitForeverForAPeerThatNeverReads) {
  serve();
  Client stuck(address(), 4096);
  ASSERT_TRUE(stuck.send("big 20000000\n"));
  ASSERT_EQ(stuck.read(1), "x");
  const auto start = std::chrono::steady_clock::now();
  server_->stop(milliseconds(50));
  EXPECT_LT(std::chrono::steady_clock::now() - start, milliseconds(5'000));
}

}  // namespace
}  // namespace sluice

// Handlers that answer later: what the connection does while they wait.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "net/line_server_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

/// A line that waits for its answer.
struct Ticket {
  explicit Ticket(std::shared_ptr<Waker> w) : waker(std::move(w)) {}

  /// From any thread.
  void answer() {
    answered = true;
    waker->wake();
  }

  std::shared_ptr<Waker> waker;
  std::atomic<bool> answered = false;
};

/// Where tickets wait until the test takes them. Thread-safe.
class Counter {
 public:
  void hand_in(std::shared_ptr<Ticket> ticket) {
    const std::lock_guard lock(mutex_);
    tickets_.push_back(std::move(ticket));
    came_.notify_all();
  }

  /// The one that waits longest, null where none comes in ten seconds.
  std::shared_ptr<Ticket> take() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::seconds(10), [&] { return !tickets_.empty(); })) {
      return nullptr;
    }
    std::shared_ptr<Ticket> ticket = std::move(tickets_.front());
    tickets_.pop_front();
    return ticket;
  }

  std::atomic<std::size_t> most_input = 0;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<Ticket>> tickets_;
};

/// Lines are echoed when their ticket is answered, those of LineHandler's that begin with '=' at
/// once.
class LaterHandler final : public LineHandler {
 public:
  LaterHandler(Counter& counter, std::shared_ptr<Waker> waker)
      : counter_(counter), waker_(std::move(waker)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    counter_.most_input = std::max(counter_.most_input.load(), input.size());
    if (ticket_ != nullptr) {
      if (!ticket_->answered) return {0, Next::kLater};
      output += line_;
      ticket_.reset();
    }
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) return {};
    if (input.starts_with('=')) {
      Progress progress = LineHandler::on_data(input.substr(1, end), output);
      progress.consumed = end + 1;
      if (progress.next == Next::kNeedMore) progress.next = Next::kMore;
      return progress;
    }
    line_ = input.substr(0, end + 1);
    ticket_ = std::make_shared<Ticket>(waker_);
    counter_.hand_in(ticket_);
    return {end + 1, Next::kLater};
  }

 private:
  Counter& counter_;
  std::shared_ptr<Waker> waker_;
  std::string line_;
  std::shared_ptr<Ticket> ticket_;
};

class LaterHandlerTest : public testing::Test {
 protected:
  void serve(const StreamServerOptions& options = {}) {
    const HandlerFactory factory = [this](std::size_t, std::shared_ptr<Waker> waker) {
      return std::make_unique<LaterHandler>(counter_, std::move(waker));
    };
    server_ = std::make_unique<StreamServer>(std::vector<Service>{{any_port(), factory, "full\n"}},
                                             options);
    server_->start();
  }
  Address address() const { return server_->addresses()[0]; }

  void answer(int tickets) {
    for (int i = 0; i < tickets; ++i) {
      const std::shared_ptr<Ticket> ticket = counter_.take();
      ASSERT_NE(ticket, nullptr);
      ticket->answer();
    }
  }

  /// Until a connection is not taken any more.
  void wait_for_stop() const {
    while (Client(address()).connected()) {
    }
  }

  /// False where there are more or fewer after ten seconds.
  bool wait_for_connections(std::size_t open) const {
    const auto end = EventLoop::Clock::now() + std::chrono::seconds(10);
    while (server_->connections() != open && EventLoop::Clock::now() < end) {
      std::this_thread::yield();
    }
    return server_->connections() == open;
  }

  Counter counter_;
  std::unique_ptr<StreamServer> server_;
};

TEST_F(LaterHandlerTest, AnswersInOrderWhenItIsWoken) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("=a\none\n=b\n=c\ntwo\nthr"));
  EXPECT_EQ(client.read(2), "a\n");
  answer(1);
  EXPECT_EQ(client.read(8), "one\nb\nc\n");
  ASSERT_TRUE(client.send("ee\n"));
  answer(2);
  EXPECT_EQ(client.read(10), "two\nthree\n");
}

TEST_F(LaterHandlerTest, WakesManyAtOnceFromAnyThread) {
  constexpr std::size_t kClients = 50;
  serve({.threads = 2});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::shared_ptr<Ticket>> tickets;
  for (std::size_t i = 0; i < kClients; ++i) {
    clients.push_back(std::make_unique<Client>(address()));
    ASSERT_TRUE(clients.back()->send(std::to_string(i) + "\n"));
    tickets.push_back(counter_.take());
    ASSERT_NE(tickets.back(), nullptr);
  }
  const auto answer_all = [&] {
    for (const std::shared_ptr<Ticket>& ticket : tickets) ticket->answer();
  };
  std::thread other(answer_all);
  answer_all();
  other.join();
  for (std::size_t i = 0; i < kClients; ++i) {
    const std::string line = std::to_string(i) + "\n";
    EXPECT_EQ(clients[i]->read(line.size()), line);
  }
}

TEST_F(LaterHandlerTest, KeepsABoundedInputWhileItWaits) {
  serve();
  Client client(address());
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "=" + std::to_string(i) + "\n";
  std::string expected = lines;
  expected.erase(std::remove(expected.begin(), expected.end(), '='), expected.end());
  ASSERT_TRUE(client.send("first\n"));
  auto sending = std::async(std::launch::async, [&] { return client.send(lines); });
  answer(1);
  EXPECT_EQ(client.read(6), "first\n");
  EXPECT_TRUE(client.read(expected.size()) == expected);
  EXPECT_TRUE(sending.get());
  EXPECT_LE(counter_.most_input, kMaxInputBytes + kReadBytes);
}

TEST_F(LaterHandlerTest, AnswersAPeerThatHasEndedItsSide) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n=two\nthree\nunfinished"));
  client.end();
  answer(2);
  EXPECT_EQ(client.read_all(), "one\ntwo\nthree\n");
}

TEST_F(LaterHandlerTest, ClosesOnlyAfterTheAnswer) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n=close\ntwo\n"));
  answer(1);
  client.end();
  EXPECT_EQ(client.read_all(), "one\nbye\n");
}

TEST_F(LaterHandlerTest, LetsGoOfAPeerThatHasGone) {
  serve();
  auto client = std::make_unique<Client>(address());
  ASSERT_TRUE(client->send("=x\none\ntwo\n"));
  const std::shared_ptr<Ticket> ticket = counter_.take();
  ASSERT_NE(ticket, nullptr);
  client.reset();  // "x" is unread, so this is a reset.
  EXPECT_TRUE(wait_for_connections(0));
  ticket->answer();
  Client witness(address());
  ASSERT_TRUE(witness.send("last\n"));
  answer(1);
  EXPECT_EQ(witness.read(5), "last\n");
}

TEST_F(LaterHandlerTest, GoesOnWhenThePeerReadsAgain) {
  serve({.limits = {.max_pending_bytes = 100'000}});
  Client client(address(), 4096);
  std::string lines;
  std::string expected;
  for (int i = 0; i < 20; ++i) {
    lines += "=big 3000000\n" + std::to_string(i) + "\n";
    expected += std::string(3'000'000, 'x') + std::to_string(i) + "\n";
  }
  ASSERT_TRUE(client.send(lines));
  // Woken while the peer reads, and while it does not.
  auto answering = std::async(std::launch::async, [&] { answer(20); });
  EXPECT_TRUE(client.read(expected.size()) == expected);
  answering.get();
  ASSERT_TRUE(client.send("=here\n"));
  EXPECT_EQ(client.read(5), "here\n");
}

TEST_F(LaterHandlerTest, ClosesAPeerThatDoesNotReadWhileItWaits) {
  serve({.limits = {.max_pending_bytes = 100 << 20, .stuck_timeout = milliseconds(50)}});
  Client client(address(), 4096);
  ASSERT_TRUE(client.send("=big 20000000\nlast\n"));
  const std::shared_ptr<Ticket> ticket = counter_.take();
  ASSERT_NE(ticket, nullptr);
  EXPECT_TRUE(wait_for_connections(0));
  ticket->answer();
}

TEST_F(LaterHandlerTest, DoesNotCloseAPeerThatOnlyWaitsForItsAnswer) {
  serve({.limits = {.stuck_timeout = milliseconds(1), .linger_timeout = milliseconds(1)}});
  Client client(address());
  ASSERT_TRUE(client.send("one\n"));
  // Peers that come and are lingered for make the server look for those to be closed.
  for (int i = 0; i < 20; ++i) {
    Client other(address());
    ASSERT_TRUE(other.send("=close\n"));
    EXPECT_EQ(other.read_all(), "bye\n");
    ASSERT_TRUE(wait_for_connections(1));
  }
  answer(1);
  EXPECT_EQ(client.read(4), "one\n");
}

TEST_F(LaterHandlerTest, StopWaitsForWhatIsStillToCome) {
  serve();
  Client client(address());
  Client idle(address());
  ASSERT_TRUE(client.send("one\ntwo\n"));
  const std::shared_ptr<Ticket> ticket = counter_.take();
  ASSERT_NE(ticket, nullptr);
  ASSERT_TRUE(client.send("three\n"));
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  wait_for_stop();
  EXPECT_EQ(idle.read_all(), "");
  ticket->answer();
  answer(2);
  client.end();
  EXPECT_EQ(client.read_all(), "one\ntwo\nthree\n");
  stopping.get();
}

TEST_F(LaterHandlerTest, StopDoesNotWaitForeverAndLaterAnswersDoNoHarm) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n"));
  const std::shared_ptr<Ticket> ticket = counter_.take();
  ASSERT_NE(ticket, nullptr);
  server_->stop(milliseconds(20));
  ticket->answer();
  server_.reset();
  ticket->answer();
  EXPECT_THAT(client.read_all(), testing::AnyOf("", "(reset)"));
}

}  // namespace
}  // namespace sluice

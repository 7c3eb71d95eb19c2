#include "net/stream_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "testing/line_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

class StreamServerTest : public testing::Test {
 protected:
  void serve(const StreamServerOptions& options = {}) { serve(line_handlers(), options); }
  void serve(const MakeHandler& factory, const StreamServerOptions& options) {
    serve(Service{any_port(), factory, "no room\n"}, options);
  }
  void serve(const Service& service, const StreamServerOptions& options) {
    listen(service, options);
    server_->start();
  }
  /// Clients can connect and send, but the server reads nothing before the test calls
  /// server_->start().
  void listen(const Service& service, const StreamServerOptions& options) {
    server_ = std::make_unique<StreamServer>(std::vector<Service>{service}, options);
  }
  /// Serves one connection at address(), and one more at the address of a service with a reserve.
  void serve_with_reserve() {
    const Service other{any_port(), line_handlers(), "full\n"};
    const Service reserving{any_port(), line_handlers(), "all taken\n", {}, 1};
    server_ = std::make_unique<StreamServer>(std::vector<Service>{other, reserving},
                                             StreamServerOptions{.max_connections = 1});
    server_->start();
  }
  Address address() const { return server_->addresses()[0]; }
  Address reserving_address() const { return server_->addresses()[1]; }

  /// False if there are more or fewer connections after ten seconds.
  bool wait_for_connections(std::size_t open) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (server_->connections() != open && std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    return server_->connections() == open;
  }

  std::unique_ptr<StreamServer> server_;
};

/// Lines as LineHandler, whose beginnings are parts of requests.
class PatientHandler final : public LineHandler {
 public:
  Progress on_data(std::string_view input, std::string& output) override {
    Progress progress = LineHandler::on_data(input, output);
    progress.has_part = progress.next == Next::kNeedMore && progress.consumed < input.size();
    return progress;
  }
  void on_end(EndReason /*why*/, std::string& output) override { output += "too slow\n"; }
};

class TimeoutTest : public StreamServerTest {
 protected:
  void listen(const StreamTimeouts& timeouts) {
    StreamServerTest::listen(
        Service{.address = any_port(),
                .make_handler = handlers_of<PatientHandler>(),
                .refusal = "no room\n",
                .timeouts = timeouts,
                .on_event = [ended = ended_](ConnectionEvent why) { ++(*ended)[why]; }},
        {.limits = {.stuck_timeout = milliseconds(50), .sweep_interval = milliseconds(5)}});
  }

  /// How many connections have ended for each reason. Read it only after the server is stopped.
  std::shared_ptr<std::map<ConnectionEvent, int>> ended_ =
      std::make_shared<std::map<ConnectionEvent, int>>();
};

TEST_F(TimeoutTest, TellsWhatAPeerDidNotDo) {
  listen({.idle = milliseconds(1'000), .request = milliseconds(50)});
  Client unread(address(), 4096);
  ASSERT_TRUE(unread.send("big 50000000\n"));
  Client silent(address());
  Client late(address());
  ASSERT_TRUE(late.send("a\n"));
  Client slow(address());
  ASSERT_TRUE(slow.send("b"));
  server_->start();
  EXPECT_EQ(slow.read_all(), "too slow\n");
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(late.read_all(), "a\n");
  EXPECT_TRUE(wait_for_connections(0));
  server_->stop(milliseconds(0));
  EXPECT_THAT(*ended_, testing::ElementsAre(testing::Pair(ConnectionEvent::kIdle, 2),
                                            testing::Pair(ConnectionEvent::kHalfRequest, 1),
                                            testing::Pair(ConnectionEvent::kUnread, 1)));
}

/// Lines as LineHandler; the line "login" says who the peer is, until the line "logout".
class LoginHandler final : public CountingLineHandler {
 public:
  LoginHandler(std::atomic<std::size_t>& answered_bytes, std::atomic<int>& timeouts)
      : CountingLineHandler(answered_bytes), timeouts_(timeouts) {}

  Progress on_data(std::string_view input, std::string& output) override {
    if (input.starts_with("login\n")) awaits_login_ = false;
    if (input.starts_with("logout\n")) awaits_login_ = true;
    return CountingLineHandler::on_data(input, output);
  }
  bool awaits_login() override { return awaits_login_; }
  void on_login_timeout() override { ++timeouts_; }

 private:
  std::atomic<int>& timeouts_;
  bool awaits_login_ = true;
};

class LoginTest : public StreamServerTest {
 protected:
  ~LoginTest() override { server_.reset(); }

  void listen(milliseconds sweep_interval) {
    StreamServerTest::listen(
        Service{any_port(),
                handlers_of<LoginHandler>(answered_bytes_, timeouts_),
                "",
                {.login = kTimeToLogIn}},
        {.limits = {.max_pending_bytes = std::size_t{64} << 20, .sweep_interval = sweep_interval}});
  }

  static constexpr milliseconds kTimeToLogIn{1'000};

  std::atomic<int> timeouts_ = 0;
  std::atomic<std::size_t> answered_bytes_ = 0;
};

TEST_F(LoginTest, ClosesWhereThePeerDoesNotSayWhoItIs) {
  listen(milliseconds(5));
  Client known(address());
  ASSERT_TRUE(known.send("login\n"));
  Client former(address());
  ASSERT_TRUE(former.send("login\n"));
  server_->start();
  EXPECT_EQ(known.line(), "login\n");
  EXPECT_EQ(former.line(), "login\n");
  Client silent(address());
  Client busy(address());
  // Other requests, or unread replies, do not extend the time.
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (busy.send("ping\n") && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_LT(std::chrono::steady_clock::now(), end);
  EXPECT_EQ(silent.read_all(), "");
  EXPECT_EQ(timeouts_, 2);
  // The handler takes two lines at a time.
  EXPECT_TRUE(known.echoes("logout\na\nlogin\na\n"));
  // A peer that has logged out is given the same time again.
  EXPECT_TRUE(former.echoes("logout\n"));
  EXPECT_EQ(former.read_all(), "");
  EXPECT_EQ(timeouts_, 3);
  EXPECT_TRUE(known.echoes("a\n"));
}

TEST_F(LoginTest, HoldsLittleOutputForAPeerThatHasNotSaidWhoItIs) {
  listen(milliseconds(5));
  server_->start();
  Client client(address(), 4096);
  while (client.send("big 50000\n")) {
  }
  // Its bound, and what the kernel's buffers hold.
  EXPECT_GE(answered_bytes_, ConnectionLimits::kMaxPendingBytesBeforeLogin);
  EXPECT_LT(answered_bytes_, 12U << 20);
}

// It is nearly always unknown when the server looks, but never for long.
TEST_F(LoginTest, BeginsTheTimeAnew) {
  using std::chrono::steady_clock;
  listen(milliseconds(100));
  server_->start();
  auto known_at = steady_clock::now();
  Client client(address());
  const auto end = known_at + kTimeToLogIn * 3 / 2;
  bool is_served = true;
  while (is_served && steady_clock::now() < end) {
    const auto begin = steady_clock::now();
    is_served = client.echoes("login\n");
    if (is_served) known_at = begin;
    is_served = is_served && client.echoes("logout\n");
    for (int i = 0; i < 30; ++i) is_served = is_served && client.echoes("ping\n");
  }
  if (timeouts_ == 0) {
    EXPECT_TRUE(is_served);
  } else {  // Rightly, if this thread was held up for so long.
    EXPECT_GE(steady_clock::now() - known_at, kTimeToLogIn);
  }
}

TEST_F(TimeoutTest, StopsWhileItWatches) {
  listen({.idle = std::chrono::hours(1)});
  server_->start();
  Client client(address());
  EXPECT_TRUE(client.echoes("a\n"));
  server_->stop(std::chrono::seconds(10));
  EXPECT_EQ(client.read_all(), "");
}

TEST_F(StreamServerTest, TellsTheHandlerWhoHasConnected) {
  std::promise<std::string> told;
  const MakeHandler factory = [&](const AcceptedStream& stream) {
    told.set_value(stream.peer + (stream.is_loopback ? " loopback" : ""));
    return std::make_unique<LineHandler>();
  };
  const auto peer_of = [&](const Address& address) {
    told = {};
    StreamServer server({{address, factory, ""}}, {});
    server.start();
    const Client client(server.addresses()[0]);
    return told.get_future().get();
  };
  EXPECT_EQ(peer_of(any_port()), "127.0.0.1 loopback");
  EXPECT_EQ(peer_of({Address::Family::kIpv4, "0.0.0.0", 0}), "127.0.0.1");
  EXPECT_EQ(peer_of({Address::Family::kUnix, temporary_path("peer.sock"), 0}), "unix:");
}

TEST_F(StreamServerTest, ServesManyOnEveryThread) {
  std::atomic<unsigned> threads_used = 0;
  const MakeHandler factory = [&](const AcceptedStream& stream) {
    threads_used |= 1U << stream.thread;
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

TEST_F(StreamServerTest, ClosesOnlyThePeerForWhichMemoryRunsOut) {
  const MakeHandler greedy_handlers =
      handlers_calling([](LineHandler& lines, std::string_view input, std::string& output) {
        if (!input.starts_with("greed")) return lines.on_data(input, output);
        output += "lost";
        throw std::bad_alloc();
      });
  std::atomic<bool> no_memory = false;
  const MakeHandler factory = [&](const AcceptedStream& stream) {
    if (no_memory) throw std::bad_alloc();
    return greedy_handlers(stream);
  };
  serve(factory, {});
  Client modest(address());
  ASSERT_TRUE(modest.echoes("x\n"));
  Client greedy(address());
  ASSERT_TRUE(greedy.send("greed\n"));
  EXPECT_EQ(greedy.read_all(), "");
  no_memory = true;
  EXPECT_EQ(Client(address()).read_all(), "");
  ASSERT_TRUE(modest.echoes("y\n"));
  EXPECT_EQ(server_->connections(), 1U);
  // A request that waits while the server stops is no different.
  ASSERT_TRUE(modest.send("greed\n"));
  server_->stop(milliseconds(1'000));
  EXPECT_EQ(modest.read_all(), "");
}

TEST_F(StreamServerTest, AReserveIsForItsServiceAlone) {
  serve_with_reserve();
  Client first(address());
  ASSERT_TRUE(first.echoes("x\n"));
  Client reserved(reserving_address());
  EXPECT_TRUE(reserved.echoes("y\n"));
  EXPECT_EQ(Client(address()).read_all(), "full\n");
  EXPECT_EQ(Client(reserving_address()).read_all(), "all taken\n");
}

TEST_F(StreamServerTest, AReserveIsTakenFirst) {
  serve_with_reserve();
  std::optional<Client> reserved(reserving_address());
  ASSERT_TRUE(reserved->echoes("x\n"));
  Client other(address());
  EXPECT_TRUE(other.echoes("y\n"));
  EXPECT_EQ(server_->connections(), 2U);
  reserved.reset();
  EXPECT_TRUE(wait_for_connections(1));
  EXPECT_EQ(Client(address()).read_all(), "full\n");
  EXPECT_TRUE(Client(reserving_address()).echoes("z\n"));
}

TEST_F(StreamServerTest, BeyondItsReserveAServiceHasConnectionsAsOthersHave) {
  serve_with_reserve();
  Client first(reserving_address());
  ASSERT_TRUE(first.echoes("x\n"));
  Client second(reserving_address());
  EXPECT_TRUE(second.echoes("y\n"));
  EXPECT_EQ(Client(address()).read_all(), "full\n");
}

// By the thread that accepts: while a client waited for its worker, it would hold a descriptor.
TEST_F(StreamServerTest, RefusesOneTooManyAlthoughItsWorkerIsBusy) {
  std::promise<void> begun;
  std::promise<void> end;
  const MakeHandler factory =
      handlers_calling([&](LineHandler& lines, std::string_view input, std::string& output) {
        if (input.starts_with("block")) {
          begun.set_value();
          end.get_future().wait();
        }
        return lines.on_data(input, output);
      });
  StreamServer server({{any_port(), factory, "full\n"}}, {.threads = 2, .max_connections = 2});
  server.start();
  Client first(server.addresses()[0]);
  ASSERT_TRUE(first.echoes("x\n"));
  Client second(server.addresses()[0]);  // The workers have connections in turn.
  ASSERT_TRUE(second.send("block\n"));
  begun.get_future().wait();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Client(server.addresses()[0]).read_all(), "full\n");
  end.set_value();
  EXPECT_EQ(second.read(6), "block\n");
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

TEST_F(StreamServerTest, StopAnswersWhatHasComeAndSendsWhatWaits) {
  serve();
  Client slow(address());
  Client idle(address());
  ASSERT_TRUE(slow.send("big 20000000\nlast\n"));
  ASSERT_EQ(slow.read(1), "x");
  ASSERT_TRUE(slow.send("behind\n"));
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  EXPECT_EQ(idle.read_all(), "");
  const std::string rest = slow.read_all();
  EXPECT_EQ(rest.size(), 20'000'000U - 1 + 12);
  EXPECT_TRUE(rest.ends_with("xlast\nbehind\n"));
  stopping.get();
  EXPECT_FALSE(Client(address()).connected());
}

// The grace is 0, and the peer begins to read only after it.
TEST_F(StreamServerTest, StopSendsAReplyWholeOrNotAtAll) {
  constexpr std::size_t kReplyBytes = 300'000;
  constexpr int kReplies = 1'000;  // More than the peer can read before the server stops.
  serve();
  Client slow(address(), 4096);
  std::string lines;
  for (int i = 0; i < kReplies; ++i) lines += "big " + std::to_string(kReplyBytes) + "\n";
  ASSERT_TRUE(slow.send(lines));
  ASSERT_EQ(slow.read(1), "x");
  auto stopping =
      std::async(std::launch::async, [&] { server_->stop(milliseconds(0), milliseconds(10'000)); });
  const std::size_t received = 1 + slow.read_all().size();
  EXPECT_EQ(received % kReplyBytes, 0U) << received;
  EXPECT_LT(received, kReplies * kReplyBytes);
  stopping.get();
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

// Handlers that answer later: what the connection does while they wait.

/// A line that waits for its reply.
struct PendingLine {
  explicit PendingLine(Wake w) : wake(std::move(w)) {}

  /// From any thread.
  void answer() {
    answered = true;
    wake();
  }

  Wake wake;
  std::atomic<bool> answered = false;
};

/// Where lines wait until the test takes them. Thread-safe.
class PendingLines {
 public:
  void add(std::shared_ptr<PendingLine> line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    came_.notify_all();
  }

  /// The line that has waited longest. Throws if none arrives within ten seconds.
  std::shared_ptr<PendingLine> take() {
    std::unique_lock lock(mutex_);
    if (!came_.wait_for(lock, std::chrono::seconds(10), [&] { return !lines_.empty(); })) {
      throw std::runtime_error("no line came");
    }
    std::shared_ptr<PendingLine> line = std::move(lines_.front());
    lines_.pop_front();
    return line;
  }

  std::atomic<std::size_t> most_input = 0;

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::shared_ptr<PendingLine>> lines_;
};

/// Lines that begin with '=' go to LineHandler without that sign; all others are echoed when the
/// test answers them.
class LaterHandler final : public LineHandler {
 public:
  LaterHandler(PendingLines& lines, Wake wake) : lines_(lines), wake_(std::move(wake)) {}

  Progress on_data(std::string_view input, std::string& output) override {
    lines_.most_input = std::max(lines_.most_input.load(), input.size());
    if (pending_ != nullptr) {
      if (!pending_->answered) return {0, Next::kLater};
      output += text_;
      pending_.reset();
    }
    const std::size_t end = input.find('\n');
    if (end == std::string_view::npos) return {};
    if (input.starts_with('=')) {
      Progress progress = LineHandler::on_data(input.substr(1, end), output);
      progress.consumed = end + 1;
      if (progress.next == Next::kNeedMore) progress.next = Next::kMore;
      return progress;
    }
    text_ = input.substr(0, end + 1);
    pending_ = std::make_shared<PendingLine>(wake_);
    lines_.add(pending_);
    return {end + 1, Next::kLater};
  }

 private:
  PendingLines& lines_;
  Wake wake_;
  std::string text_;
  std::shared_ptr<PendingLine> pending_;
};

class LaterHandlerTest : public StreamServerTest {
 protected:
  void serve(const StreamServerOptions& options = {}) {
    const MakeHandler factory = [this](AcceptedStream stream) {
      return std::make_unique<LaterHandler>(lines_, std::move(stream.wake));
    };
    StreamServerTest::serve(factory, options);
  }

  void answer(int lines) {
    for (int i = 0; i < lines; ++i) lines_.take()->answer();
  }

  PendingLines lines_;
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
  serve({.threads = 2});
  std::vector<std::unique_ptr<Client>> clients;
  std::vector<std::shared_ptr<PendingLine>> lines;
  for (std::size_t i = 0; i < 50; ++i) {
    clients.push_back(std::make_unique<Client>(address()));
    ASSERT_TRUE(clients.back()->send(std::to_string(i) + "\n"));
    lines.push_back(lines_.take());
  }
  const auto answer_all = [&] {
    for (const auto& line : lines) line->answer();
  };
  std::thread other(answer_all);
  answer_all();
  other.join();
  for (std::size_t i = 0; i < clients.size(); ++i) {
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
  EXPECT_LE(lines_.most_input, kMaxInputBytes);
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
  ASSERT_TRUE(client.send("one\n=big 3000000\n=close\n=two\n"));
  answer(1);
  EXPECT_EQ(client.read(5), "one\nx");
  ASSERT_TRUE(client.send("=three\n"));
  client.end();
  EXPECT_TRUE(client.read_all() == std::string(2'999'999, 'x') + "bye\n");
}

TEST_F(LaterHandlerTest, LetsGoOfAPeerThatHasGone) {
  serve();
  auto client = std::make_unique<Client>(address());
  ASSERT_TRUE(client->send("=x\n=y\none\ntwo\n"));
  const std::shared_ptr<PendingLine> line = lines_.take();
  EXPECT_EQ(client->read(2), "x\n");
  ASSERT_TRUE(client->await());
  client.reset();  // "y" is unread, so this is a reset.
  EXPECT_TRUE(wait_for_connections(0));
  line->answer();
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

TEST_F(LaterHandlerTest, DoesNotCloseAPeerThatOnlyWaitsForItsAnswer) {
  serve({.limits = {.stuck_timeout = milliseconds(1'000)}});
  Client client(address());
  ASSERT_TRUE(client.send("=big 3000000\none\n"));
  EXPECT_EQ(client.read(3'000'000).size(), 3'000'000U);
  // Later, another one is closed because it does not read.
  Client stuck(address(), 4096);
  ASSERT_TRUE(stuck.send("=big 20000000\n"));
  EXPECT_EQ(stuck.read(1), "x");
  EXPECT_TRUE(wait_for_connections(1));
  answer(1);
  EXPECT_EQ(client.read(4), "one\n");
}

TEST_F(LaterHandlerTest, StopWaitsForWhatIsStillToCome) {
  serve();
  Client client(address());
  Client idle(address());
  ASSERT_TRUE(client.send("one\ntwo\n"));
  const std::shared_ptr<PendingLine> line = lines_.take();
  ASSERT_TRUE(client.send("three\n"));
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  EXPECT_EQ(idle.read_all(), "");
  line->answer();
  answer(2);
  client.end();
  EXPECT_EQ(client.read_all(), "one\ntwo\nthree\n");
  stopping.get();
}

TEST_F(LaterHandlerTest, StopWaitsForAnAnswerThoughNoMoreInputIsTaken) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n"));
  const std::shared_ptr<PendingLine> line = lines_.take();
  std::string lines;
  for (int i = 0; i < 2'000'000; ++i) lines += "=z\n";
  auto sending = std::async(std::launch::async, [&] { return client.send(lines); });
  auto stopping = std::async(std::launch::async, [&] { server_->stop(milliseconds(10'000)); });
  while (Client(address()).connected()) {
  }
  line->answer();
  EXPECT_EQ(client.read(4), "one\n");
  stopping.get();
  sending.get();
}

TEST_F(LaterHandlerTest, StopDoesNotWaitForeverAndLaterAnswersDoNoHarm) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n"));
  const std::shared_ptr<PendingLine> line = lines_.take();
  server_->stop(milliseconds(20));
  line->answer();
  server_.reset();
  line->answer();
  EXPECT_THAT(client.read_all(), testing::AnyOf("", "(reset)"));
}

}  // namespace
}  // namespace sluice

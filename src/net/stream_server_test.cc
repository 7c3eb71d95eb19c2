#include "net/stream_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "testing/line_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

class StreamServerTest : public StreamServerFixture {};

TEST_F(StreamServerTest, TellsWhatAPeerDidNotDo) {
  std::map<ConnectionEvent, int> ended;  // How many connections, for each reason.
  Service service = line_service();
  service.timeouts = {.idle = milliseconds(1'000), .request = milliseconds(50)};
  service.on_event = [&](ConnectionEvent why) { ++ended[why]; };
  listen({service},
         {.limits = {.stuck_timeout = milliseconds(50), .sweep_interval = milliseconds(5)}});
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
  EXPECT_TRUE(await_connections(0));
  server_->stop(milliseconds(0));
  EXPECT_THAT(ended, testing::ElementsAre(testing::Pair(ConnectionEvent::kIdle, 2),
                                          testing::Pair(ConnectionEvent::kHalfRequest, 1),
                                          testing::Pair(ConnectionEvent::kUnread, 1)));
}

// The server has not read for longer than that, since too much output was pending.
TEST_F(StreamServerTest, TheTimeForTheRestOfARequestBeginsWhenTheServerReadsAgain) {
  Service service = line_service();
  service.timeouts.request = milliseconds(500);
  serve(service, {.limits = {.max_pending_bytes = 100'000, .sweep_interval = milliseconds(5)}});
  Client slow(address(), 4096);
  ASSERT_TRUE(slow.send("big 20000000\npart"));
  ASSERT_EQ(slow.read(1), "x");
  Client late(address());
  ASSERT_TRUE(late.send("part"));
  ASSERT_EQ(late.read_all(), "too slow\n");
  EXPECT_EQ(slow.read(20'000'000 - 1).size(), 20'000'000U - 1);
  ASSERT_TRUE(slow.send("\n"));
  EXPECT_EQ(slow.line(), "part\n");
}

/// Lines as LineHandler; the line "login" says who the peer is, until the line "logout".
class LoginHandler final : public LineHandler {
 public:
  Progress on_data(std::string_view input, std::string& output) override {
    if (input.starts_with("login\n")) awaits_login_ = false;
    if (input.starts_with("logout\n")) awaits_login_ = true;
    return LineHandler::on_data(input, output);
  }
  bool awaits_login() override { return awaits_login_; }

 private:
  bool awaits_login_ = true;
};

class LoginTest : public StreamServerFixture {
 protected:
  void listen(milliseconds sweep_interval) {
    LineHandler::answered_bytes = 0;
    Service service =
        line_service([](const AcceptedStream&) { return std::make_unique<LoginHandler>(); });
    service.timeouts.login = kTimeToLogIn;
    service.on_event = [this](ConnectionEvent why) {
      timeouts_ += why == ConnectionEvent::kNoLogin ? 1 : 0;
    };
    StreamServerFixture::listen({service}, {.limits = {.max_pending_bytes = std::size_t{64} << 20,
                                                       .sweep_interval = sweep_interval}});
  }

  static constexpr milliseconds kTimeToLogIn{1'000};

  std::atomic<int> timeouts_ = 0;
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
  EXPECT_GE(LineHandler::answered_bytes, ConnectionLimits::kMaxPendingBytesBeforeLogin);
  EXPECT_LT(LineHandler::answered_bytes, 12U << 20);
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

TEST_F(StreamServerTest, ServesOnEveryThread) {
  std::atomic<unsigned> threads_used = 0;
  const MakeHandler factory = [&](const AcceptedStream& stream) {
    threads_used |= 1U << stream.thread;
    return std::make_unique<LineHandler>();
  };
  serve(line_service(factory), {.threads = 3});
  std::vector<Client> clients;
  for (int i = 0; i < 9; ++i) ASSERT_TRUE(clients.emplace_back(address()).echoes("x\n"));
  EXPECT_EQ(threads_used, 7U);
  EXPECT_TRUE(await_connections(9));
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
  serve(line_service(factory));
  Client modest(address());
  ASSERT_TRUE(modest.echoes("x\n"));
  Client greedy(address());
  ASSERT_TRUE(greedy.send("greed\n"));
  EXPECT_EQ(greedy.read_all(), "");
  no_memory = true;
  EXPECT_EQ(Client(address()).read_all(), "");
  ASSERT_TRUE(modest.echoes("y\n"));
  EXPECT_TRUE(await_connections(1));
  // A request that waits while the server stops is no different.
  ASSERT_TRUE(modest.send("greed\n"));
  server_->stop(milliseconds(1'000));
  EXPECT_EQ(modest.read_all(), "");
}

/// Serves one connection at any address, and one more at that of a service with a reserve.
class ReserveTest : public StreamServerFixture {
 protected:
  ReserveTest() {
    listen({{any_port(), line_handlers(), "full\n"},
            {any_port(), line_handlers(), "all taken\n", {}, 1}},
           {.max_connections = 1});
    server_->start();
  }

  Client connect(std::size_t service) const {
    Client client(address(service));
    EXPECT_TRUE(client.echoes("x\n"));
    return client;
  }
  std::string refusal(std::size_t service) const { return Client(address(service)).read_all(); }

  static constexpr std::size_t kOther = 0;
  static constexpr std::size_t kReserving = 1;
};

TEST_F(ReserveTest, IsForItsServiceAlone) {
  const Client first = connect(kOther);
  const Client reserved = connect(kReserving);
  EXPECT_EQ(refusal(kOther), "full\n");
  EXPECT_EQ(refusal(kReserving), "all taken\n");
}

TEST_F(ReserveTest, IsTakenFirst) {
  std::optional<Client> reserved(connect(kReserving));
  const Client other = connect(kOther);
  EXPECT_TRUE(await_connections(2));
  reserved.reset();
  EXPECT_TRUE(await_connections(1));
  EXPECT_EQ(refusal(kOther), "full\n");
  connect(kReserving);
}

TEST_F(ReserveTest, BeyondItAServiceHasConnectionsAsOthersHave) {
  const Client first = connect(kReserving);
  const Client second = connect(kReserving);
  EXPECT_EQ(refusal(kOther), "full\n");
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

// The server stops at once. Its peer has not read a whole reply by then, and one reply is more than
// the system holds for a socket.
TEST_F(StreamServerTest, StopSendsAReplyWholeOrNotAtAll) {
  constexpr std::size_t kReplyBytes = 20'000'000;
  constexpr int kReplies = 15;  // More than the peer can read before the server stops.
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

// A connection with much to answer lets the others of its thread go on.

TEST_F(StreamServerTest, ServesOthersWhileOneHasMoreAndMoreToAnswer) {
  // Echoes lines, and has more to do after "endless" until the test ends.
  std::atomic<bool> is_over = false;
  serve(line_service(
      handlers_calling([&, is_endless = false](LineHandler& lines, std::string_view input,
                                               std::string& output) mutable {
        auto progress = lines.on_data(input, output);
        is_endless = (is_endless || input == "endless\n") && !is_over;
        if (is_endless) progress.next = StreamHandler::Next::kMore;
        return progress;
      })));
  Client endless(address());
  EXPECT_TRUE(endless.send("endless\n"));
  EXPECT_EQ(endless.read(8), "endless\n");
  Client other(address());
  EXPECT_TRUE(other.send("other\n"));
  EXPECT_EQ(other.read(6), "other\n");
  EXPECT_TRUE(endless.send("more\n"));
  EXPECT_EQ(endless.read(5), "more\n");
  is_over = true;
  server_.reset();
}

TEST_F(StreamServerTest, APeerWaitsForOneTurnOfAnother) {
  int begun = 0;
  std::function<void()> in_first;
  std::function<void()> before_second;
  // Answers "slow" after three turns, and everything else with the number of turns until then.
  serve(line_service(handlers_calling([&](LineHandler& lines, std::string_view input,
                                          std::string& output) -> StreamHandler::Progress {
    if (input != "slow\n") {
      if (!input.empty()) output += std::to_string(begun) + "\n";
      return {.consumed = input.size()};
    }
    if (begun == 1) before_second();
    if (++begun == 1) in_first();
    const auto end = std::chrono::steady_clock::now() + milliseconds(2);
    while (std::chrono::steady_clock::now() < end) {  // Longer than a turn.
    }
    if (begun < 3) return {.next = StreamHandler::Next::kMore};
    return lines.on_data(input, output);
  })));
  Client slow(address());
  Client other(address());
  ASSERT_TRUE(other.send("first\n"));
  ASSERT_EQ(other.read(2), "0\n");
  in_first = [&] { EXPECT_TRUE(other.send("second\n")); };
  before_second = [&] { EXPECT_EQ(other.read(2), "1\n"); };
  ASSERT_TRUE(slow.send("slow\n"));
  EXPECT_EQ(slow.read(5), "slow\n");
}

// Handlers that answer later: what the connection does while they wait.

class LaterHandlerTest : public StreamServerFixture {
 protected:
  void serve(const StreamServerOptions& options = {}) {
    StreamServerFixture::serve(line_service(later_handlers(lines_)), options);
  }

  PendingLines lines_;
};

TEST_F(LaterHandlerTest, KeepsABoundedInputWhileItWaits) {
  serve();
  Client client(address());
  std::string lines;
  for (int i = 0; i < 200'000; ++i) lines += "=" + std::to_string(i) + "\n";
  std::string expected = lines;
  expected.erase(std::remove(expected.begin(), expected.end(), '='), expected.end());
  ASSERT_TRUE(client.send("first\n"));
  auto sending = std::async(std::launch::async, [&] { return client.send(lines); });
  lines_.answer(1);
  EXPECT_EQ(client.read(6), "first\n");
  EXPECT_TRUE(client.read(expected.size()) == expected);
  EXPECT_TRUE(sending.get());
  EXPECT_LE(lines_.most_input, kMaxInputBytes);
}

TEST_F(LaterHandlerTest, AnswersAPeerThatHasEndedItsSide) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n=big 5000000\n=two\nthree\nunfinished"));
  client.end();
  // The system may hold less than the long answer until it is read.
  auto answers = std::async(std::launch::async, [&] { return client.read_all(); });
  lines_.answer(2);
  EXPECT_EQ(answers.get(), "one\n" + std::string(5'000'000, 'x') + "two\nthree\n");
}

TEST_F(LaterHandlerTest, ClosesOnlyAfterTheAnswer) {
  serve();
  Client client(address());
  ASSERT_TRUE(client.send("one\n=big 3000000\n=close\n=two\n"));
  lines_.answer(1);
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
  EXPECT_TRUE(await_connections(0));
  line->answer();
  Client witness(address());
  ASSERT_TRUE(witness.send("last\n"));
  lines_.answer(1);
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
  auto answering = std::async(std::launch::async, [&] { lines_.answer(20); });
  EXPECT_TRUE(client.read(expected.size()) == expected);
  answering.get();
  ASSERT_TRUE(client.send("=here\n"));
  EXPECT_EQ(client.read(5), "here\n");
}

// A Unix socket holds some 200 KB: of the first reply, less waits than the bound, and the second is
// taken at once when the first has gone.
TEST_F(StreamServerTest, GoesOnWhenTheSocketTakesWhatWaits) {
  const Address path{Address::Family::kUnix, temporary_path("held.sock"), 0};
  listen({{path, line_handlers(), ""}}, {.limits = {.max_pending_bytes = 160'000}});
  server_->start();
  Client client(path);
  ASSERT_TRUE(client.send("big 300000\nbig 0\nbig 100000\nbig 0\nlast\n"));
  EXPECT_EQ(client.read(400'000).size(), 400'000U);
  EXPECT_EQ(client.line(), "last\n");
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
  EXPECT_TRUE(await_connections(1));
  lines_.answer(1);
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
  lines_.answer(2);
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

// How a server drains.

constexpr std::chrono::seconds kPatience{10};

class DrainTest : public StreamServerFixture {
 protected:
  DrainTest() {
    serve(line_service(), {.threads = 2, .limits = {.linger_timeout = std::chrono::seconds(60)}});
  }

  std::future<void> drain() {
    return std::async(std::launch::async, [&] { server_->drain(kPatience); });
  }
  static bool is_done(const std::future<void>& draining) {
    return draining.wait_for(milliseconds(0)) == std::future_status::ready;
  }
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
TEST_F(StreamServerTest, DrainingAReplyCountsAfterTheEndOfItsTurn) {
  const MakeHandler make =
      handlers_calling([until = Clock::time_point()](LineHandler& lines, std::string_view input,
                                                     std::string& output) mutable {
        auto progress = lines.on_data(input, output);
        if (!output.empty()) until = Clock::now() + milliseconds(2);
        if (Clock::now() < until) progress.next = StreamHandler::Next::kMore;
        return progress;
      });
  serve(line_service(make));
  Client client(address());
  ASSERT_TRUE(client.echoes("before\n"));
  const auto draining = std::async(std::launch::async, [&] { server_->drain(kPatience); });
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
  server_->stop(milliseconds(10'000));
  EXPECT_LT(Clock::now() - start, kPatience / 2);
}

}  // namespace
}  // namespace sluice

#include "net/request_pipeline.h"

#include <netinet/in.h>

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "net/look_up.h"
#include "servers/temporary_folder.h"
#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::StartsWith;

// A pipeline to a server whose every reply the test makes.
class RequestPipelineTest : public RequestPipelineFixture {
 protected:
  using RequestPipelineFixture::connect;
  using RequestPipelineFixture::patient;

  PipelineOptions patient() const { return patient(server_.endpoint()); }
  Peer connect() { return connect(server_); }
  Peer connect(const PipelineOptions& options) { return connect(server_, options); }
  void shake_hands_by(const std::string& text, std::size_t replies = 1) {
    user_.handshake_text = text;
    user_.handshake_count = replies;
  }
  // Of each loss and failure so far: whether the breaker is open after it.
  std::vector<bool> broken() {
    std::vector<bool> copy;
    board_.change([&] { copy = user_.broken; });
    return copy;
  }
  std::string why_not(IoContext::Clock::time_point all_read_at = IoContext::Clock::now()) {
    std::string why;
    on_thread([&] { why = pipeline_->why_not(all_read_at); });
    return why;
  }
  void expect_answer(TestCommand& asked, Peer& peer) {
    peer.send("yes\n");
    ASSERT_TRUE(asked.await_end());
    EXPECT_EQ(asked.answer, "yes\n");
  }

  FakeServer server_;
};

TEST_F(RequestPipelineTest, ShakesHandsBeforeItSends) {
  shake_hands_by("hello\nselect 1\n", 2);
  TestCommand& first = command("first\n");
  open(patient());
  ask({&first});
  Peer peer = server_.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  EXPECT_EQ(peer.line(), "select 1\n");
  peer.send("+welcome\n");
  settle();
  EXPECT_EQ(peer.unread_bytes(), 0U);
  EXPECT_EQ(user_.ups, 0U);
  peer.send("+selected\n");
  EXPECT_EQ(peer.line(), "first\n");
  peer.send("1\n");
  ASSERT_TRUE(first.await_end());
  EXPECT_EQ(first.answer, "1\n");
  EXPECT_THAT(user_.handshaken, ElementsAre("0 +welcome\n", "1 +selected\n"));
  EXPECT_EQ(user_.ups, 1U);
  EXPECT_THAT(downs(), IsEmpty());
}

// It may be started by its user's constructor, and no socket has so long a name.
TEST_F(RequestPipelineTest, WhenItIsStartedItCallsNobodyYet) {
  on_thread([this] {
    pipeline_ =
        RequestPipeline::make(context_, patient({.unix_path = std::string(200, 'x')}), user_);
    pipeline_->start();
    EXPECT_THAT(user_.downs, IsEmpty());
  });
  EXPECT_TRUE(await_downs(1));
}

TEST_F(RequestPipelineTest, NeverHasMoreInFlightThanAllowed) {
  TestCommand* const commands[] = {&command("1\n"), &command("2\n"), &command("3\n"),
                                   &command("4\n")};
  PipelineOptions options = patient();
  options.max_in_flight = 2;
  open(options);
  Peer peer = server_.accept();
  ask({commands[0], commands[1], commands[2], commands[3]});
  for (int i = 0; i < 4; ++i) {
    ASSERT_TRUE(peer.await());
    settle();
    EXPECT_EQ(peer.unread_bytes(), i < 3 ? 4U : 2U) << i;
    EXPECT_EQ(peer.line(), std::to_string(i + 1) + "\n");
    peer.send("reply " + std::to_string(i + 1) + "\n");
    ASSERT_TRUE(commands[i]->await_end());
    EXPECT_EQ(commands[i]->answer, "reply " + std::to_string(i + 1) + "\n");
    settle();
  }
}

TEST_F(RequestPipelineTest, HalfAReplyIsNone) {
  Peer peer = connect();
  TestCommand& whole = command("whole\n");
  TestCommand& half = command("half\n");
  ask({&whole, &half});
  EXPECT_EQ(peer.lines(2), "whole\nhalf\n");
  peer.send("answer\nans");
  peer.close();
  ASSERT_TRUE(half.await_end());
  EXPECT_EQ(whole.answer, "answer\n");
  EXPECT_EQ(half.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(half.why, server_.endpoint().text() + " closed the connection");
}

TEST_F(RequestPipelineTest, GarbageEndsTheConnection) {
  Peer peer = connect();
  TestCommand& first = command("first\n");
  TestCommand& second = command("second\n");
  ask({&first, &second});
  EXPECT_EQ(peer.lines(2), "first\nsecond\n");
  peer.send("!?\nfine\n");
  ASSERT_TRUE(second.await_end());
  EXPECT_EQ(first.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(second.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(first.why, server_.endpoint().text() + " sent what is no reply");
  EXPECT_EQ(peer.line(), "");
  const Peer next = server_.accept();
  EXPECT_TRUE(await_up(2));
  EXPECT_THAT(broken(), ElementsAre(true));
}

TEST_F(RequestPipelineTest, AReplyToNoCommandEndsTheConnection) {
  Peer peer = connect();
  peer.send("news\n");
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), server_.endpoint().text() + " sent a reply to no command");
  Peer next = server_.accept();
  ASSERT_TRUE(await_up(2));
  TestCommand& asked = ask_on(next);
  next.send("one\ntwo\n");
  ASSERT_TRUE(await_downs(2));
  EXPECT_EQ(asked.answer, "one\n");
}

TEST_F(RequestPipelineTest, SilenceEndsTheConnection) {
  PipelineOptions options = patient();
  options.silence_timeout = milliseconds(30);
  Peer peer = connect(options);
  TestCommand& asked = command("?\n");
  const auto start = std::chrono::steady_clock::now();
  ask({&asked});
  ASSERT_TRUE(asked.await_end());
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(30));
  EXPECT_EQ(asked.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(asked.why, server_.endpoint().text() + " has not answered for 30 ms");
  EXPECT_TRUE(peer.ends_in_reset());
  Peer next = server_.accept();
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(broken(), ElementsAre(true));
}

TEST_F(RequestPipelineTest, AServerIsSilentIfNothingHasComeForLong) {
  PipelineOptions options = patient();
  options.patience = milliseconds(20);
  const auto more = options.patience + std::chrono::nanoseconds(1);
  Peer peer = connect(options);
  EXPECT_EQ(why_not(), "");
  const auto oldest = [&] {
    IoContext::Clock::time_point since;
    on_thread([&] { since = pipeline_->waiting_since().value(); });
    return since;
  };
  TestCommand& first = ask_on(peer);
  EXPECT_EQ(why_not(oldest() + options.patience), "");
  EXPECT_EQ(why_not(oldest() + more), server_.endpoint().text() + " has not answered for a while");
  ask_on(peer);
  peer.send("yes\n");
  ASSERT_TRUE(first.await_end());
  EXPECT_EQ(why_not(oldest() + more), "");
}

TEST_F(RequestPipelineTest, OnlyTheLastReplyToACommandCountsAndSomeHaveNone) {
  Peer peer = connect();
  TestCommand& silent = command("silent\n");
  TestCommand& twice = command("twice\n");
  TestCommand& once = command("once\n");
  silent.reply_count = 0;
  twice.reply_count = 2;
  ask({&silent, &twice, &once});
  EXPECT_EQ(peer.lines(3), "silent\ntwice\nonce\n");
  peer.send("1\n2\n3\n");
  ASSERT_TRUE(once.await_end());
  EXPECT_EQ(twice.answer, "2\n");
  EXPECT_EQ(twice.endings, 1);
  EXPECT_EQ(once.answer, "3\n");
  EXPECT_EQ(silent.endings, 0);
}

TEST_F(RequestPipelineTest, APushIsNotTakenAsAReply) {
  Peer peer = connect();
  TestCommand& asked = ask_on(peer);
  peer.send(">1\nyes\n>2\n");
  ASSERT_TRUE(board_.wait([&] { return user_.pushes.size() == 2; }));
  EXPECT_THAT(user_.pushes, ElementsAre(">1\n", ">2\n"));
  EXPECT_EQ(asked.answer, "yes\n");
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(RequestPipelineTest, TheContextHasToRunUntilItIsUpAndIdle) {
  shake_hands_by("hello\n");
  EXPECT_FALSE(has_work());
  open(patient());
  EXPECT_TRUE(has_work());
  Peer peer = server_.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  peer.send("+hello\n");
  ASSERT_TRUE(await_up());
  EXPECT_FALSE(has_work());
  TestCommand& asked = command("?\n");
  ask({&asked});
  EXPECT_TRUE(has_work());
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("yes\n");
  ASSERT_TRUE(asked.await_end());
  EXPECT_FALSE(has_work());
  on_thread([&] {
    peer.close();
    context_.asio()->poll();
    EXPECT_TRUE(context_.has_work());
    pipeline_.reset();
    EXPECT_FALSE(context_.has_work());
  });
}

// A command without replies, such as SUBSCRIBE, is never in flight.
TEST_F(RequestPipelineTest, AServerThatDoesNotReceiveIsSilent) {
  PipelineOptions options = patient();
  options.silence_timeout = milliseconds(30);
  const Peer peer = connect(options);
  TestCommand& without_reply = command(long_line(32'000'000));
  without_reply.reply_count = 0;
  ask({&without_reply});
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), server_.endpoint().text() + " has not answered for 30 ms");
}

// The connection is up all the same, as far as reading shows.
TEST_F(RequestPipelineTest, AServerToWhichNothingCanBeSentIsSilent) {
  const servers::TemporaryFolder folder;
  const Endpoint endpoint{.unix_path = folder.path() / "socket"};
  boost::asio::io_context unused;
  boost::asio::local::stream_protocol::acceptor acceptor(unused, endpoint.unix_path);
  PipelineOptions options = patient(endpoint);
  options.silence_timeout = milliseconds(30);
  open(options);
  auto peer = acceptor.accept();
  peer.shutdown(peer.shutdown_receive);
  ASSERT_TRUE(await_up());
  TestCommand& without_reply = command("?\n");
  without_reply.reply_count = 0;
  ask({&without_reply});
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), endpoint.text() + " has not answered for 30 ms");
}

TEST_F(RequestPipelineTest, AThreadThatWasLateDoesNotTakeTheServerForSilent) {
  PipelineOptions options = patient();
  options.silence_timeout = milliseconds(30);
  Peer peer = connect(options);
  TestCommand& asked = command("?\n");
  on_thread([&] {
    ask_here({&asked});
    context_.asio()->poll();
    EXPECT_EQ(peer.line(), "?\n");
    peer.send("yes\n");
    const auto late = std::chrono::steady_clock::now() + milliseconds(40);
    while (std::chrono::steady_clock::now() < late) {
    }
  });
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer, "yes\n");
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(RequestPipelineTest, AConnectionOnWhichNothingIsOpenEndsInOrder) {
  Peer peer = connect();
  TestCommand& asked = ask_on(peer);
  peer.send("yes\n");
  ASSERT_TRUE(asked.await_end());
  on_thread([&] { pipeline_->reconnect("127.0.0.1 is of no use"); });
  EXPECT_FALSE(peer.ends_in_reset());
}

TEST_F(RequestPipelineTest, AConnectionThatTheServerHasEndedIsNotReset) {
  Peer peer = connect();
  TestCommand& asked = ask_on(peer);
  peer.end();
  ASSERT_TRUE(asked.await_end());
  EXPECT_FALSE(peer.ends_in_reset());
}

TEST_F(RequestPipelineTest, AReplyBeyondTheBoundEndsTheConnection) {
  PipelineOptions options = patient();
  options.max_reply_bytes = 1'000'000;
  Peer peer = connect(options);
  TestCommand& asked = ask_on(peer);
  peer.send(std::string(2'000'000, 'x'));
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.why, server_.endpoint().text() + " sent a reply longer than 1000000 bytes");
}

TEST_F(RequestPipelineTest, HalfACommandMayHaveBeenCarriedOutAndWhatFollowsIsNotAskedFor) {
  Peer peer = connect();
  // Longer than what the socket takes from a peer that does not read.
  TestCommand& begun = command(long_line(40'000'000));
  TestCommand& next = command("next\n");
  ask({&begun, &next});
  ASSERT_TRUE(peer.await());
  peer.reset();
  ASSERT_TRUE(begun.await_end());
  EXPECT_EQ(begun.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(server_.accept().line(), "next\n");
}

TEST_F(RequestPipelineTest, LooksBeforeItSendsOnAnIdleConnection) {
  Peer peer = connect();
  TestCommand& asked = command("?\n");
  on_thread([&] {
    // The thread itself cannot have noticed.
    peer.close();
    ask_here({&asked});
  });
  Peer next = server_.accept();
  EXPECT_EQ(next.line(), "?\n");
  expect_answer(asked, next);
}

TEST_F(RequestPipelineTest, RepliesSentBeforeTheEndCount) {
  Peer peer = connect();
  TestCommand& first = ask_on(peer);
  TestCommand& second = command("second\n");
  on_thread([&] {
    peer.send("1\n");
    peer.reset();
    ask_here({&second});
  });
  ASSERT_TRUE(first.await_end());
  EXPECT_EQ(first.answer, "1\n");
  Peer next = server_.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(RequestPipelineTest, CallbacksMayFlushAndReconnect) {
  Peer peer = connect();
  TestCommand& first = command("first\n");
  TestCommand& second = command("second\n");
  TestCommand& third = command("third\n");
  user_.when_down = [&] {
    pipeline_->flush();
    pipeline_->reconnect("nothing, for it is down");
  };
  first.then = [&] {
    pipeline_->flush();
    pipeline_->reconnect("first has had enough");
    pipeline_->reconnect("twice");
  };
  second.then = [&] {
    pipeline_->reconnect("nothing, for it is down");
    ask_here({&third});
  };
  ask({&first, &second});
  EXPECT_EQ(peer.lines(2), "first\nsecond\n");
  peer.send("1\n2\n");
  ASSERT_TRUE(second.await_end());
  EXPECT_EQ(first.answer, "1\n");
  EXPECT_EQ(second.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(second.why, "first has had enough");
  EXPECT_EQ(server_.accept().line(), "third\n");
  EXPECT_EQ(downs().at(0), "first has had enough");
  EXPECT_THAT(broken(), ElementsAre(true));
}

TEST_F(RequestPipelineTest, ARefusedHandshakeIsTriedAgain) {
  shake_hands_by("password\n");
  open(patient());
  for (int attempt = 0; attempt < 2; ++attempt) {
    Peer peer = server_.accept();
    EXPECT_EQ(peer.line(), "password\n");
    peer.send("-wrong\n");
    EXPECT_EQ(peer.line(), "");
  }
  Peer peer = server_.accept();
  peer.send("+right\n");
  EXPECT_TRUE(await_up());
  EXPECT_THAT(downs(), ElementsAre("the server says -wrong\n", "the server says -wrong\n"));
  EXPECT_THAT(broken(), ElementsAre(true, true));
}

TEST_F(RequestPipelineTest, ALostConnectionIsRenewedAtOnce) {
  TestCommand& lost = command("lost\n");
  TestCommand& next = command("next\n");
  PipelineOptions options = patient();
  // Would be seen if it were kept.
  options.least_pause = options.most_pause = kNever;
  open(options);
  Peer peer = server_.accept();
  ask({&lost});
  EXPECT_EQ(peer.line(), "lost\n");
  ask({&next});
  EXPECT_EQ(peer.line(), "next\n");
  peer.reset();
  ASSERT_TRUE(lost.await_end());
  EXPECT_EQ(lost.loss, Loss::kMayBeExecuted);
  EXPECT_THAT(lost.why, StartsWith("the connection to 127.0.0.1:"));
  EXPECT_THAT(lost.why, EndsWith(" failed: Connection reset by peer"));
  peer = server_.accept();
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre(lost.why));
  EXPECT_THAT(broken(), ElementsAre(false));
}

TEST_F(RequestPipelineTest, AServerThatEndsEachConnectionIsNotWaitedFor) {
  shake_hands_by("hello\n");
  PipelineOptions options = patient();
  options.most_pause = kNever;  // No connection lasts so long.
  open(options);
  const auto accept = [&] {
    Peer peer = server_.accept();
    EXPECT_EQ(peer.line(), "hello\n");
    return peer;
  };
  for (const std::size_t times : {1, 2}) {
    Peer peer = accept();
    peer.send("+hello\n");
    ASSERT_TRUE(await_up(times));
    peer.close();
    ASSERT_TRUE(await_downs(times));
  }
  Peer peer = accept();
  EXPECT_EQ(why_not(), downs().at(1));
  peer.send("+hello\n");
  ASSERT_TRUE(await_up(3));
  EXPECT_EQ(why_not(), "");
  EXPECT_THAT(broken(), ElementsAre(false, true));
}

TEST_F(RequestPipelineTest, EarlierLossesOfAConnectionThatLastsAreForgotten) {
  PipelineOptions options = patient();
  options.least_pause = options.most_pause = milliseconds(0);  // Each lasts for long enough.
  open(options);
  for (const std::size_t times : {1, 2, 3}) {
    Peer peer = server_.accept();
    ASSERT_TRUE(await_up(times));
    peer.close();
    ASSERT_TRUE(await_downs(times));
  }
  EXPECT_THAT(broken(), ElementsAre(false, false, false));
}

TEST_F(RequestPipelineTest, RefusedConnectionsAreTriedEverMoreSeldom) {
  FakeServer server(-1);
  PipelineOptions options = patient(server.endpoint());
  options.least_pause = milliseconds(4);
  options.most_pause = milliseconds(1000);
  open(options);
  ASSERT_TRUE(await_downs(5));
  on_thread([&] { EXPECT_FALSE(pipeline_->is_up()); });
  close();
  for (int i = 1; i < 5; ++i) {
    EXPECT_GE(user_.down_at[i] - user_.down_at[i - 1], milliseconds(2 << (i - 1))) << i;
  }
  EXPECT_EQ(downs().at(0),
            "cannot connect to " + server.endpoint().text() + ": Connection refused");
}

// The time of its silence does not count as one in which it was of use.
TEST_F(RequestPipelineTest, AServerThatAnswersHandshakesOnlyIsTriedEverMoreSeldom) {
  PipelineOptions options = patient();
  options.silence_timeout = milliseconds(50);
  options.least_pause = milliseconds(10);
  options.most_pause = milliseconds(50);
  std::vector<TestCommand*> commands;
  for (int i = 0; i < 30; ++i) commands.push_back(&command("?\n"));
  options.max_in_flight = 1;
  open(options);
  std::vector<Peer> peers;
  ask(commands);
  // The pauses: none, 10 ms, 20 ms, 40 ms; less a half at most. They begin anew where the thread of
  // the pipeline is held up after a handshake: the connection counts as one that was of use.
  int long_ones = 0;  // In a row.
  while (long_ones < 3 && peers.size() < commands.size()) {
    peers.push_back(server_.accept());
    ASSERT_TRUE(await_downs(peers.size()));
    board_.change([&, i = peers.size() - 1] {
      const bool is_long =
          i > 0 && user_.down_at[i] - user_.down_at[i - 1] >= milliseconds(50 + 20);
      long_ones = is_long ? long_ones + 1 : 0;
    });
  }
  EXPECT_EQ(long_ones, 3);
}

// A name with two addresses; what listens at the first one completes no handshake.
class RequestPipelineToTwo : public RequestPipelineTest {
 protected:
  RequestPipelineToTwo() {
    ports = {server_.endpoint().port, other_.endpoint().port};
    shake_hands_by("hello\n");
  }

  static LookupResult look_up_both(const Endpoint&) {
    LookupResult found;
    for (const std::uint16_t port : ports) {
      found.addresses.emplace_back(
          boost::asio::ip::tcp::endpoint(boost::asio::ip::address_v4::loopback(), port));
    }
    return found;
  }
  PipelineOptions to_both() const {
    PipelineOptions options = patient({.host = "two", .port = 1});
    options.look_up = look_up_both;
    return options;
  }
  void expect_up_at_other() {
    Peer peer = other_.accept();
    EXPECT_EQ(peer.line(), "hello\n");
    peer.send("+hello\n");
    EXPECT_TRUE(await_up());
    EXPECT_EQ(downs().size(), 1U);
  }

  static inline std::array<std::uint16_t, 2> ports{};
  FakeServer other_;
};

TEST_F(RequestPipelineToTwo, LeavesAnAddressThatClosesInTheHandshake) {
  open(to_both());
  server_.accept().close();
  expect_up_at_other();
}

TEST_F(RequestPipelineToTwo, LeavesAnAddressThatHangsInTheHandshake) {
  PipelineOptions options = to_both();
  options.handshake_timeout = milliseconds(2'000);  // The test's own answer has this long, too.
  open(options);
  const Peer silent = server_.accept();
  expect_up_at_other();
  EXPECT_EQ(downs().at(0), "two:1 has not completed the handshake within 2000 ms");
}

TEST_F(RequestPipelineTest, AServerThatDoesNotAcceptIsGivenUp) {
  FakeServer server(0);
  // What the backlog of a server that does not accept holds, and more.
  std::vector<UniqueFd> others;
  const boost::asio::ip::tcp::endpoint address(boost::asio::ip::address_v4::loopback(),
                                               server.endpoint().port);
  for (int i = 0; i < 4; ++i) {
    others.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    static_cast<void>(::connect(others.back().get(), address.data(), sizeof(sockaddr_in)));
  }
  PipelineOptions options = patient(server.endpoint());
  options.connect_timeout = milliseconds(20);
  open(options);
  ASSERT_TRUE(await_downs(2));
  EXPECT_EQ(downs().at(0), "cannot connect to " + server.endpoint().text() + " within 20 ms");
}

TEST_F(RequestPipelineTest, MayBeDestroyedInAnyState) {
  shake_hands_by("hello\n");
  TestCommand& asked = command("?\n");
  on_thread([&] { RequestPipeline::make(context_, patient(), user_); });
  open(patient({.host = "localhost", .port = 1}));  // Looks for the address, or tries it.
  close();
  FakeServer refuses(-1);
  PipelineOptions pauses = patient(refuses.endpoint());
  pauses.least_pause = pauses.most_pause = kNever;
  const std::size_t refused = downs().size() + 1;
  open(pauses);
  ASSERT_TRUE(await_downs(refused));
  close();
  board_.change([&] { user_.waiting.push_back(&asked); });
  open(patient());
  Peer peer = server_.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  close();  // It has not been shaken.
  EXPECT_EQ(peer.line(), "");
  EXPECT_EQ(asked.endings, 0);
  open(patient());
  peer = server_.accept();
  peer.send("+hello\n");
  EXPECT_EQ(peer.lines(2), "hello\n?\n");
  close();
  EXPECT_EQ(peer.line(), "");
  EXPECT_EQ(asked.endings, 1);
  EXPECT_EQ(asked.loss, Loss::kMayBeExecuted);
  EXPECT_EQ(downs().size(), refused);
}

}  // namespace
}  // namespace sluice

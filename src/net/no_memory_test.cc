// The system has no memory: what was to be done later is, whoever has asked is told that nothing
// comes, and a connection that is given up is made anew once there is some again.

#include <deque>
#include <memory>
#include <string>

#include "net/line_server_test.h"
#include "net/pipeline.h"
#include "net/pipeline_fixture_test.h"
#include "net/refused_memory_test.h"
#include "net/tls_server_test.h"

namespace sluice {
namespace {

// A sentence that names the server is longer, for which there is no memory; all else is shorter.
constexpr std::size_t kSentence = 120;

TEST(TimerWithoutMemory, IsSetAndRunsAllTheSame) {
  EventLoop loop;
  int ran = 0;
  std::deque<Timer> timers;
  for (int i = 0; i < 100; ++i) timers.emplace_back(loop, [&ran] { ++ran; });
  Timer end(loop, [&loop] { loop.stop(); });
  refused_bytes = 1;
  for (int again = 0; again < 2; ++again) {
    for (Timer& timer : timers) timer.set(std::chrono::milliseconds(0));
  }
  timers.front().cancel();
  end.set(std::chrono::milliseconds(1));
  loop.run();
  refused_bytes = kNoneRefused;
  EXPECT_EQ(ran, 99);
}

class PipelineWithoutMemory : public PipelineFixture {
 protected:
  void refuse_on_loop(std::size_t bytes) {
    on_loop([bytes] { refused_bytes = bytes; });
  }

  FakeServer server_{temporary_path(std::string(80, 'x')).substr(0, 107)};
};

TEST_F(PipelineWithoutMemory, AllAreToldWhereNothingCanBeSaid) {
  PipelineOptions options = patient(server_.endpoint());
  options.max_in_flight = 20;
  open(options);
  const Peer peer = server_.accept();
  ASSERT_TRUE(await_up());
  for (int i = 0; i < 20; ++i) question("?\n");
  Question& last = *questions_.back();
  last.too_long = true;
  on_loop([this] {
    for (const auto& asked : questions_) user_.waiting.push_back(asked.get());
    refused_bytes = kSentence;
    pipeline_->kick();
    refused_bytes = kNoneRefused;
  });
  ASSERT_TRUE(last.await_end());
  for (const auto& asked : questions_) EXPECT_EQ(asked->why, kNoMemory);
  server_.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineWithoutMemory, ACallerIsNotThrownAtNorKeepsTheConnection) {
  const Peer peer = connect(server_);
  settle();
  Question& asked = question("?\n");
  asked.too_long = true;
  refused_bytes = 1;
  const Pipeline::Here here = pipeline_->run_here(asked, in(kNever));
  refused_bytes = kNoneRefused;
  EXPECT_EQ(here, Pipeline::Here::kHandedOver);
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.why, kNoMemory);
  server_.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineWithoutMemory, ACallerWhoHasNotAskedKnowsIt) {
  const Certificates certificates;
  PipelineOptions options = patient(server_.endpoint());
  options.endpoint.tls =
      TlsOptions{.ca_file = certificates.path("ca.pem"), .server_name = "localhost"};
  open(options);
  TlsPeer peer(server_.accept(), certificates, {});
  ASSERT_TRUE(peer.shake_hands());
  ASSERT_TRUE(await_up());
  settle();
  Question& never = question("never\n");
  Pipeline::Here here = Pipeline::Here::kDone;
  on_loop([&] {
    // The loop itself cannot have noticed.
    peer.below().send("this is no record of TLS\n");
    refused_bytes = 1;
    here = pipeline_->run_here(never, in(kNever));
    refused_bytes = kNoneRefused;
  });
  EXPECT_EQ(here, Pipeline::Here::kBusy);
  EXPECT_TRUE(await_downs(1));
  EXPECT_EQ(never.endings, 0);
}

TEST_F(PipelineWithoutMemory, AnAttemptThatTakesTooLongIsGivenUp) {
  user_.greets = "hello\n";
  user_.greeting_count = 1;
  PipelineOptions options = patient(server_.endpoint());
  options.connect_timeout = std::chrono::milliseconds(30);
  options.least_pause = options.most_pause = kNever;
  open(options);
  Peer peer = server_.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  refuse_on_loop(kSentence);
  EXPECT_TRUE(await_downs(1));
  refuse_on_loop(kNoneRefused);
  EXPECT_EQ(downs().at(0), kNoMemory);
}

TEST_F(PipelineWithoutMemory, ItsOwnEndNeedsNone) {
  Peer peer = connect(server_);
  on_loop([this] {
    refused_bytes = 1;
    pipeline_.reset();
    refused_bytes = kNoneRefused;
  });
  EXPECT_EQ(peer.line(), "");
}

// Nor do the attempts to connect that fail for want of it keep it from the next one.
TEST_F(PipelineWithoutMemory, IsMadeAnewOnceThereIsSome) {
  const Peer peer = connect(server_);
  constexpr std::size_t kAttempts = 100'000;
  board_.change([this] {
    user_.downs.reserve(kAttempts);
    user_.down_at.reserve(kAttempts);
  });
  on_loop([this] {
    refused_bytes = 1;
    pipeline_->reconnect("it is of no use");
  });
  ASSERT_TRUE(await_downs(3));
  on_loop([] { refused_bytes = kNoneRefused; });
  server_.accept();
  EXPECT_TRUE(await_up(2));
}

TEST_F(PipelineWithoutMemory, AReasonThatCannotBeKeptIsNone) {
  const Peer peer = connect(server_);
  const std::string reason(kSentence, 'x');
  on_loop([&] {
    refused_bytes = kSentence;
    pipeline_->reconnect(reason);
    refused_bytes = kNoneRefused;
  });
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), kNoMemory);
}

}  // namespace
}  // namespace sluice

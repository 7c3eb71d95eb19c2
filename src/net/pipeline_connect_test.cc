#include <netinet/in.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <vector>

#include "net/pipeline.h"
#include "net/pipeline_fixture_test.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;
using testing::StartsWith;

using PipelineConnectTest = PipelineFixture;

TEST_F(PipelineConnectTest, ARefusedGreetingIsTriedAgain) {
  FakeServer server;
  user_.greets = "password\n";
  user_.greeting_count = 1;
  open(patient(server.endpoint()));
  for (int attempt = 0; attempt < 2; ++attempt) {
    Peer peer = server.accept();
    EXPECT_EQ(peer.line(), "password\n");
    peer.send("-wrong\n");
    EXPECT_EQ(peer.line(), "");
  }
  Peer peer = server.accept();
  peer.send("+right\n");
  EXPECT_TRUE(await_up());
  EXPECT_THAT(downs(), ElementsAre("the server says -wrong\n", "the server says -wrong\n"));
}

TEST_F(PipelineConnectTest, ALostConnectionIsRenewedAtOnce) {
  FakeServer server;
  Question& lost = question("lost\n");
  Question& next = question("next\n");
  PipelineOptions options = patient(server.endpoint());
  // Would be seen if it were kept.
  options.least_pause = options.most_pause = kNever;
  open(options);
  Peer peer = server.accept();
  ask({&lost});
  EXPECT_EQ(peer.line(), "lost\n");
  ask({&next});
  peer.reset();
  ASSERT_TRUE(lost.await_end());
  EXPECT_EQ(lost.loss, Loss::kUnknown);
  EXPECT_THAT(lost.why, StartsWith("the connection to 127.0.0.1:"));
  EXPECT_THAT(lost.why, EndsWith(" failed: Connection reset by peer"));
  peer = server.accept();
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre(lost.why));
}

TEST_F(PipelineConnectTest, RefusedConnectionsAreTriedEverMoreSeldom) {
  FakeServer server(-1);
  PipelineOptions options = patient(server.endpoint());
  options.least_pause = milliseconds(4);
  options.most_pause = milliseconds(1000);
  open(options);
  ASSERT_TRUE(await_downs(5));
  EXPECT_FALSE(pipeline_->is_up());
  close();
  for (int i = 1; i < 5; ++i) {
    EXPECT_GE(user_.down_at[i] - user_.down_at[i - 1], milliseconds(2 << (i - 1))) << i;
  }
  EXPECT_EQ(downs().at(0),
            "cannot connect to " + server.endpoint().text() + ": Connection refused");
}

TEST_F(PipelineConnectTest, AnIdleConnectionThatEndsIsRenewedBeforeItIsNeeded) {
  FakeServer server;
  connect(server).close();
  Peer next = server.accept();
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre(server.endpoint().text() + " closed the connection"));
}

TEST_F(PipelineConnectTest, AGreetingThatNeverComesIsGivenUp) {
  FakeServer server;
  user_.greets = "hello\n";
  user_.greeting_count = 1;
  PipelineOptions options = patient(server.endpoint());
  options.connect_timeout = milliseconds(20);
  open(options);
  Peer first = server.accept();
  Peer second = server.accept();
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), server.endpoint().text() + " has not greeted within 20 ms");
  EXPECT_EQ(user_.ups, 0U);
}

TEST_F(PipelineConnectTest, AServerThatDoesNotAcceptIsGivenUp) {
  FakeServer server(0);
  // What the backlog of a server that accepts nobody holds, and more.
  std::vector<std::unique_ptr<UniqueFd>> others;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(server.endpoint().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 4; ++i) {
    others.push_back(std::make_unique<UniqueFd>(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)));
    static_cast<void>(
        ::connect(others.back()->get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)));
  }
  PipelineOptions options = patient(server.endpoint());
  options.connect_timeout = milliseconds(20);
  open(options);
  ASSERT_TRUE(await_downs(2));
  EXPECT_EQ(downs().at(0), "cannot connect to " + server.endpoint().text() + " within 20 ms");
}

TEST_F(PipelineConnectTest, ReconnectGivesTheConnectionUp) {
  FakeServer server;
  Peer peer = connect(server);
  Question& asked = question("?\n");
  ask({&asked});
  on_loop([&] {
    pipeline_->reconnect("127.0.0.1 is loading");
    pipeline_->reconnect("it is not asked twice");
    EXPECT_FALSE(pipeline_->is_up());
  });
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(asked.why, "127.0.0.1 is loading");
  Peer next = server.accept();
  ASSERT_TRUE(await_up(2));
  EXPECT_THAT(downs(), ElementsAre("127.0.0.1 is loading"));
}

TEST_F(PipelineConnectTest, SpeaksOverAUnixSocket) {
  const std::string path =
      testing::TempDir() + "sluice_pipeline_" + std::to_string(::getpid()) + ".sock";
  FakeServer server(path);
  Peer peer = connect(server);
  Question& asked = question("?\n");
  ask({&asked});
  EXPECT_EQ(peer.line(), "?\n");
  peer.send("yes\n");
  ASSERT_TRUE(asked.await_end());
  EXPECT_EQ(asked.answer, "yes\n");
  close();
  const Endpoint missing{.unix_path = path + ".not"};
  open(patient(missing));
  ASSERT_TRUE(await_downs(1));
  EXPECT_EQ(downs().at(0), "cannot connect to unix:" + path + ".not: No such file or directory");
}

TEST_F(PipelineConnectTest, FindsAHostByItsName) {
  FakeServer server;
  // Where localhost is ::1 too, nobody listens there.
  open(patient({.host = "localhost", .port = server.endpoint().port}));
  Peer peer = server.accept();
  ASSERT_TRUE(await_up());
  EXPECT_THAT(downs(), IsEmpty());
}

TEST_F(PipelineConnectTest, AHostWithoutAddressHoldsNobodyUp) {
  PipelineOptions options = patient({.host = "no-such-host.invalid", .port = 1});
  options.connect_timeout = milliseconds(100);
  open(options);
  // The loop's thread answers meanwhile.
  settle();
  ASSERT_TRUE(await_downs(2));
  EXPECT_THAT(downs().at(0), StartsWith("cannot find the address of no-such-host.invalid:1"));
}

TEST_F(PipelineConnectTest, MayBeDestroyedInAnyState) {
  FakeServer server;
  user_.greets = "hello\n";
  user_.greeting_count = 1;
  Question& asked = question("?\n");
  on_loop([&] { Pipeline never_started(loop_, patient(server.endpoint()), user_); });
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
  open(patient(server.endpoint()));
  Peer peer = server.accept();
  EXPECT_EQ(peer.line(), "hello\n");
  close();  // It has not been greeted.
  EXPECT_EQ(peer.line(), "");
  EXPECT_EQ(asked.endings, 0);
  open(patient(server.endpoint()));
  peer = server.accept();
  peer.send("+hello\n");
  EXPECT_EQ(peer.lines(2), "hello\n?\n");
  close();
  EXPECT_EQ(peer.line(), "");
  EXPECT_EQ(asked.endings, 1);
  EXPECT_EQ(asked.loss, Loss::kUnknown);
  EXPECT_EQ(downs().size(), refused);
}

}  // namespace
}  // namespace sluice

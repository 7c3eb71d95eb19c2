#include "net/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <vector>

#include "net/fake_server_test.h"

namespace sluice {
namespace {

using testing::StartsWith;

class DeafSink final : public EventSink {
 public:
  void on_events(std::uint32_t) override {}
};

TEST(ConnectorTest, AddressesFoundAfterAnAttemptServeTheNextAndNoOther) {
  const FakeServer server;
  EventLoop loop;
  DeafSink sink;
  const Endpoint endpoint{.host = "localhost", .port = server.endpoint().port};
  Connector connector(loop, endpoint, sink, [&] { loop.stop(); });
  EXPECT_EQ(connector.begin(), Connector::Progress::kWaiting);
  connector.abandon();
  loop.run();  // Until the addresses are found.
  connector.begin();
  EXPECT_THAT(connector.doing(), StartsWith("connect to localhost:"));
  connector.abandon();
  EXPECT_EQ(connector.begin(), Connector::Progress::kWaiting);
  EXPECT_THAT(connector.doing(), StartsWith("find the address of localhost:"));
}

// A name with two addresses, each of which leads to another server. Attempt follows attempt: each
// is abandoned when it has come there.
class TwoAddressesTest : public testing::Test, private EventSink {
 protected:
  static void SetUpTestSuite() { servers = std::make_unique<std::array<FakeServer, 2>>(); }
  static void TearDownTestSuite() { servers.reset(); }

  // Which server each attempt has led to, and the first of all; `of_no_use`: what it was.
  std::vector<std::size_t> connected(const std::vector<bool>& of_no_use) {
    of_no_use_ = of_no_use;
    proceed(connector_.begin());
    loop_.run();
    return connected_;
  }

 private:
  static FoundAddresses both(const Endpoint&) {
    FoundAddresses found;
    for (const FakeServer& server : *servers) {
      found.addresses.push_back(known_address(server.endpoint()).value().addresses.at(0));
    }
    return found;
  }

  void on_events(std::uint32_t) override { proceed(connector_.advance()); }

  void proceed(Connector::Progress progress) {
    while (progress != Connector::Progress::kWaiting) {
      ASSERT_EQ(progress, Connector::Progress::kConnected);
      sockaddr_in peer{};
      socklen_t bytes = sizeof(peer);
      const auto stream = connector_.take();
      ASSERT_EQ(::getpeername(stream->fd(), reinterpret_cast<sockaddr*>(&peer), &bytes), 0);
      loop_.remove(stream->fd());
      connected_.push_back(ntohs(peer.sin_port) == servers->at(0).endpoint().port ? 0 : 1);
      const std::size_t ended = connected_.size();
      if (ended > of_no_use_.size()) return loop_.stop();
      connector_.abandon(of_no_use_[ended - 1]);
      progress = connector_.begin();
    }
  }

  static inline std::unique_ptr<std::array<FakeServer, 2>> servers;
  std::vector<bool> of_no_use_;
  std::vector<std::size_t> connected_;
  EventLoop loop_;
  const Endpoint endpoint_{.host = "two", .port = 1};
  Connector connector_{loop_, endpoint_, *this, [this] { proceed(connector_.advance()); }, both};
};

TEST_F(TwoAddressesTest, OneThatWasOfNoUseIsPassedOver) {
  EXPECT_THAT(connected({true, false, true, true}), testing::ElementsAre(0, 1, 1, 0, 1));
}

class ConnectErrorTest : public testing::Test {
 protected:
  /// Bound to address_, whose port is a free one from the first call on.
  UniqueFd bound() {
    UniqueFd socket(::socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(socket.get(), address_.get(), address_.bytes), 0);
    auto* const own = reinterpret_cast<sockaddr*>(&address_.storage);
    EXPECT_EQ(::getsockname(socket.get(), own, &address_.bytes), 0);
    return socket;
  }

  SocketAddress address_ = known_address({.host = "127.0.0.1"}).value().addresses.at(0);
};

TEST_F(ConnectErrorTest, ASocketThatIsItsOwnPeerIsRefusedAndGivesItsPortBack) {
  UniqueFd socket = bound();
  ASSERT_EQ(::connect(socket.get(), address_.get(), address_.bytes), 0);
  EXPECT_EQ(connect_error(socket.get()), ECONNREFUSED);
  socket.reset();
  bound();
}

TEST_F(ConnectErrorTest, ThereIsNoneWhereAnotherSocketIsThePeer) {
  const UniqueFd server = bound();
  ASSERT_EQ(::listen(server.get(), 1), 0);
  const UniqueFd client(::socket(AF_INET, SOCK_STREAM, 0));
  ASSERT_EQ(::connect(client.get(), address_.get(), address_.bytes), 0);
  EXPECT_EQ(connect_error(client.get()), 0);
}

}  // namespace
}  // namespace sluice

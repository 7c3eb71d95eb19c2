#include "net/connector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cerrno>

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

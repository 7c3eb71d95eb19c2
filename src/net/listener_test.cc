#include "net/listener.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "net/line_server_test.h"

namespace {

/// Called after every listen() of this program, where it is set.
std::function<void()> after_listen;

}  // namespace

/// In place of the C library's: lets a peer connect as early as one can.
extern "C" int listen(int socket, int backlog) noexcept {
  const auto result = static_cast<int>(::syscall(SYS_listen, socket, backlog));
  if (after_listen) after_listen();
  return result;
}

namespace sluice {
namespace {

using std::chrono::milliseconds;

TEST(ListenerTest, KeepsWhoConnectsWhileItOpens) {
  const Address address = Listener(any_port(), 1).address();
  std::vector<Client> eager;
  after_listen = [&] { eager.emplace_back(address); };
  StreamServer server = make_server(address, {.threads = 2});
  after_listen = nullptr;
  server.start();
  ASSERT_GE(eager.size(), 2);
  for (Client& client : eager) {
    ASSERT_TRUE(client.send("x\n"));
    EXPECT_EQ(client.read(2), "x\n");
  }
}

TEST(ListenerTest, RefusesAPortThatIsTaken) {
  StreamServer first = make_server(any_port());
  const Address taken = first.addresses()[0];
  try {
    make_server(taken);
    FAIL() << "two servers on " << taken.text();
  } catch (const ListenError& error) {
    EXPECT_EQ(std::string(error.what()),
              "cannot listen on " + taken.text() + ": Address already in use");
  }
  first.stop(milliseconds(0));
  EXPECT_EQ(make_server(taken).addresses()[0], taken);
}

TEST(ListenerTest, ReplacesOnlyAStaleSocketFileAndRemovesItsOwn) {
  const Address address{Address::Family::kUnix, temporary_path("stale.sock"), 0};
  {
    StreamServer live = make_server(address);
    EXPECT_THROW(make_server(address), ListenError);
    ASSERT_TRUE(std::filesystem::exists(address.host));
    // A second name for the socket stays when the server goes, and leads nowhere.
    std::filesystem::create_hard_link(address.host, address.host + ".kept");
  }
  EXPECT_FALSE(std::filesystem::exists(address.host));
  std::filesystem::rename(address.host + ".kept", address.host);
  StreamServer next = make_server(address);
  next.start();
  Client client(address);
  ASSERT_TRUE(client.send("x\n"));
  EXPECT_EQ(client.read(2), "x\n");
}

TEST(ListenerTest, LeavesTheSocketFileOfAServerThatIsAboutToListen) {
  const Address address{Address::Family::kUnix, temporary_path("early.sock"), 0};
  sockaddr_un path{};
  path.sun_family = AF_UNIX;
  address.host.copy(path.sun_path, sizeof(path.sun_path) - 1);
  const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(other.get(), reinterpret_cast<const sockaddr*>(&path), sizeof(path)), 0);
  EXPECT_THROW(make_server(address), ListenError);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  EXPECT_TRUE(Client(address).connected());
  std::filesystem::remove(address.host);
}

TEST(ListenerTest, LeavesTheSocketFileOfAnotherServerThatTookItsPlace) {
  const Address address{Address::Family::kUnix, temporary_path("taken.sock"), 0};
  StreamServer first = make_server(address);
  std::filesystem::remove(address.host);
  StreamServer second = make_server(address);
  second.start();
  first.stop(milliseconds(0));
  Client client(address);
  ASSERT_TRUE(client.send("x\n"));
  EXPECT_EQ(client.read(2), "x\n");
  second.stop(milliseconds(0));
  EXPECT_FALSE(std::filesystem::exists(address.host));
}

TEST(ListenerTest, LooksAfterSilentTcpPeers) {
  Listener listener(any_port(), 1);
  const UniqueFd socket = listener.take_socket(0);
  const auto option = [&](int level, int name) {
    int value = 0;
    socklen_t bytes = sizeof(value);
    EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &bytes), 0);
    return value;
  };
  EXPECT_NE(option(SOL_SOCKET, SO_KEEPALIVE), 0);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE), 300);
}

TEST(ListenerTest, LeavesAFileThatIsNoSocket) {
  const Address address{Address::Family::kUnix, temporary_path("file"), 0};
  std::ofstream(address.host) << "precious";
  EXPECT_THROW(make_server(address), ListenError);
  EXPECT_EQ(std::filesystem::file_size(address.host), 8U);
  std::filesystem::remove(address.host);
}

}  // namespace
}  // namespace sluice

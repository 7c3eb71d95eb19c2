#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <system_error>
#include <vector>

#include "testing/child_process.h"
#include "testing/error_of.h"
#include "testing/line_server.h"

namespace sluice {
namespace {

using std::chrono::milliseconds;

// Starts a server of four threads as a user who may have three, of which one is the caller. Returns
// the error; empty if there is none.
std::string start_with_too_few_threads() {
  constexpr ::uid_t kNoOthers = 64'999;  // A user without other processes.
  StreamServer server({{any_port(), line_handlers(), ""}}, {.threads = 4});
  const ::rlimit few{.rlim_cur = 3, .rlim_max = 3};
  if (::setrlimit(RLIMIT_NPROC, &few) != 0 || ::setuid(kNoOthers) != 0) return "no such user";
  return error_of<std::system_error>([&] { server.start(); });
}

#ifdef __has_feature
constexpr const char* kThirdOrEarlier = __has_feature(thread_sanitizer) ? "[1-3]" : "3";
#else
constexpr const char* kThirdOrEarlier = "3";
#endif

TEST(ListeningTest, SaysThatThereAreTooFewThreads) {
  if (::geteuid() != 0) return;  // Only root becomes another user.
  const int status = in_child_process([] {
    ::alarm(10);
    const std::string error = start_with_too_few_threads();
    // The thread sanitizer may have one or two threads of its own, so that an earlier one fails.
    const std::regex expected("cannot start thread " + std::string(kThirdOrEarlier) +
                              " of 4: Resource temporarily unavailable");
    return std::regex_match(error, expected);
  });
  EXPECT_EQ(status, 0);
}

// Otherwise another program of this user could take half of the connections, unseen.
TEST(ListeningTest, AChangeThatIsRefusedLeavesThePortToItsListenerAlone) {
  const StreamServer other = make_server(any_port());
  const auto socket_at = [](const std::string& path) {
    return Service{{Address::Family::kUnix, path, 0}, line_handlers(), ""};
  };
  StreamServer server({{any_port(), line_handlers(), ""}, socket_at(temporary_path("own.sock"))},
                      {.threads = 1});
  server.start();
  const Address own = server.addresses()[0];
  const Address all{Address::Family::kIpv4, "0.0.0.0", own.port};
  const Address elsewhere{Address::Family::kIpv4, "192.0.2.1", own.port};
  const std::vector<Service> taken{{all, line_handlers(), ""},
                                   {other.addresses()[0], line_handlers(), ""}};
  EXPECT_THROW(server.replace(taken, [] {}), ListenError);
  const std::vector<Service> nowhere{{all, line_handlers(), ""}, socket_at("/no/folder/own.sock")};
  EXPECT_THROW(server.replace(nowhere, [] {}), ListenError);
  EXPECT_THROW(server.replace({{elsewhere, line_handlers(), ""}}, [] {}), ListenError);
  const UniqueFd second(::socket(AF_INET, SOCK_STREAM, 0));
  const int on = 1;
  ASSERT_EQ(::setsockopt(second.get(), SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
  const auto name = socket_address(own);
  EXPECT_NE(::bind(second.get(), name.data(), static_cast<socklen_t>(name.size())), 0);
}

// Nor that of one that is about to listen.
TEST(ListeningTest, LeavesTheSocketFileOfAServerThatListens) {
  const Address address{Address::Family::kUnix, temporary_path("early.sock"), 0};
  const auto path = socket_address(address);
  const UniqueFd other(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(other.get(), path.data(), static_cast<socklen_t>(path.size())), 0);
  EXPECT_THROW(make_server(address), ListenError);
  ASSERT_EQ(::listen(other.get(), 1), 0);
  EXPECT_THROW(make_server(address), ListenError);
  EXPECT_TRUE(Client(address).connected());
  std::filesystem::remove(address.host);
}

TEST(ListeningTest, LeavesTheSocketFileOfAnotherServerThatTookItsPlace) {
  const Address address{Address::Family::kUnix, temporary_path("taken.sock"), 0};
  StreamServer first = make_server(address);
  std::filesystem::remove(address.host);
  StreamServer second = make_server(address);
  second.start();
  first.stop(milliseconds(0));
  Client client(address);
  ASSERT_TRUE(client.echoes("x\n"));
  second.stop(milliseconds(0));
  EXPECT_FALSE(std::filesystem::exists(address.host));
}

TEST(ListeningTest, ProbesTcpPeersThatAreSilentForFiveMinutes) {
  const StreamServer server = make_server(any_port());
  const std::uint16_t port = server.addresses()[0].port;
  const Client client(server.addresses()[0]);
  // The kernel's table has a line for each socket: local address, remote address, state (1:
  // established), queues, kind of timer (2: keep-alive) with its hundredths of a second, ...
  const std::regex pattern("[0-9A-F]{8}:([0-9A-F]{4}) [0-9A-F:]* 01 [0-9A-F:]* 02:([0-9A-F]{8})");
  std::ifstream table("/proc/net/tcp");
  unsigned long hundredths = 0;
  for (std::string line; std::getline(table, line);) {
    std::smatch found;
    if (!std::regex_search(line, found, pattern)) continue;
    if (std::stoul(found[1], nullptr, 16) == port) hundredths = std::stoul(found[2], nullptr, 16);
  }
  EXPECT_GT(hundredths, 200 * 100U);
  EXPECT_LE(hundredths, 300 * 100U);
}

}  // namespace
}  // namespace sluice

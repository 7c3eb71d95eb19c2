#include "net/client_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <semaphore>
#include <string>
#include <thread>

#include "testing/child_process.h"
#include "testing/fake_server.h"
#include "testing/refuse_system_call.h"

namespace sluice {
namespace {

using boost::asio::ip::tcp;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

class ClientStreamTest : public testing::Test {
 protected:
  using Stream = std::shared_ptr<ClientStream>;

  Stream make(const Endpoint& endpoint, ClientStream::LookUp look_up = look_up_host) {
    return std::make_shared<ClientStream>(context_, endpoint, look_up);
  }

  // What connect() has returned; null where it has not.
  std::shared_ptr<std::optional<std::string>> begin(const Stream& stream) {
    auto result = std::make_shared<std::optional<std::string>>();
    boost::asio::co_spawn(
        context_.asio()->get_executor(), stream->connect(),
        [result, stream](std::exception_ptr, const std::string& why) { *result = why; });
    return result;
  }
  std::string connect(const Stream& stream) {
    const auto result = begin(stream);
    while (!*result) context_.asio()->run_one();
    return **result;
  }

  IoContext context_;
};

TEST_F(ClientStreamTest, ConnectsToAnAddressWithoutALookup) {
  const FakeServer server;
  const auto never = [](const Endpoint&) -> LookupResult { std::abort(); };
  EXPECT_EQ(connect(make(server.endpoint(), never)), "");
  EXPECT_EQ(connect(make({.unix_path = std::string(200, 'x')}, never)),
            "cannot find the address of unix:" + std::string(200, 'x') +
                ": its path has 200 bytes, a socket's has 107 at most");
  EXPECT_EQ(connect(make({.unix_path = "/no/socket"}, never)),
            "cannot connect to unix:/no/socket: No such file or directory");
}

TEST_F(ClientStreamTest, SaysWhyThereIsNoAddress) {
  const LookupResult found = look_up_host({.host = "no host has blanks", .port = 80});
  EXPECT_THAT(found.addresses, IsEmpty());
  EXPECT_THAT(found.error, Not(IsEmpty()));
  EXPECT_EQ(connect(make({.host = "no host has blanks", .port = 80})),
            "cannot find the address of no host has blanks:80: " + found.error);
}

// A child of fork() has none of the parent's threads.
TEST_F(ClientStreamTest, FindsAnAddressInAChildProcessToo) {
  const FakeServer server;
  const Endpoint named{.host = "localhost", .port = server.endpoint().port};
  EXPECT_EQ(connect(make(named)), "");
  const auto connect_in_child = [&] {
    ::alarm(10);  // Ends the child where it waits for ever.
    IoContext own;
    const auto stream = std::make_shared<ClientStream>(own, named);
    std::optional<std::string> why;
    boost::asio::co_spawn(own.asio()->get_executor(), stream->connect(),
                          [&](std::exception_ptr, const std::string& result) { why = result; });
    while (!why) own.asio()->run_one();
    return *why;
  };
  EXPECT_EQ(in_child_process([&] { return connect_in_child().empty(); }), 0);
  EXPECT_EQ(in_child_process([&] {
              if (!refuse_system_call(SYS_clone3)) return false;
              return connect_in_child().starts_with("cannot find the address of localhost:");
            }),
            0);
}

// A lookup that a test lets go on.
std::binary_semaphore lookup_may_end{0};
Endpoint looked_up;

LookupResult look_up_late(const Endpoint& endpoint) {
  looked_up = endpoint;
  lookup_may_end.acquire();
  return look_up_host({.host = "127.0.0.1", .port = endpoint.port});
}

TEST_F(ClientStreamTest, ALateLookupServesOnlyTheNextAttempt) {
  const FakeServer server;
  const Stream stream = make({.host = "late", .port = server.endpoint().port}, look_up_late);
  const auto abandoned = begin(stream);
  context_.asio()->poll();
  EXPECT_EQ(stream->doing(), "find the address of late:" + std::to_string(server.endpoint().port));
  stream->close(false);
  context_.asio()->poll();
  EXPECT_TRUE(abandoned->has_value());
  lookup_may_end.release();
  EXPECT_EQ(connect(stream), "");
  EXPECT_EQ(looked_up.host, "late");
  EXPECT_THAT(stream->doing(), StartsWith("connect to late:"));
  const auto again = begin(stream);
  context_.asio()->poll();
  EXPECT_THAT(stream->doing(), StartsWith("find the address of late:"));
  lookup_may_end.release();
  while (!*again) context_.asio()->run_one();
}

sigset_t lookup_blocks;

LookupResult note_blocked_signals(const Endpoint&) {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &lookup_blocks);
  return {{}, "noted"};
}

// The thread that connects may be the program's, which handles its signals.
TEST_F(ClientStreamTest, ALookupTakesNoSignalOfTheProgram) {
  EXPECT_THAT(connect(make({.host = "name", .port = 1}, note_blocked_signals)), Not(IsEmpty()));
  EXPECT_EQ(::sigismember(&lookup_blocks, SIGTERM), 1);
  sigset_t own;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(::sigismember(&own, SIGTERM), 0);
}

TEST_F(ClientStreamTest, ALookupMayEndWhenTheStreamAndItsContextHaveGone) {
  auto context = std::make_unique<IoContext>();
  const std::weak_ptr<boost::asio::io_context> asio = context->asio();
  auto stream =
      std::make_shared<ClientStream>(*context, Endpoint{.host = "late", .port = 1}, look_up_late);
  boost::asio::co_spawn(context->asio()->get_executor(), stream->connect(),
                        [stream](std::exception_ptr, const std::string&) {});
  context->asio()->poll();
  stream->close(false);
  stream.reset();
  context->asio()->poll();
  context.reset();
  EXPECT_FALSE(asio.expired());
  lookup_may_end.release();
  while (!asio.expired()) std::this_thread::yield();
}

// A name with two addresses, each of which leads to another server.
class TwoAddresses : public ClientStreamTest {
 protected:
  TwoAddresses() { servers = &two_; }

  static LookupResult look_up_both(const Endpoint&) {
    LookupResult found;
    for (const FakeServer* server : {&servers->first, &servers->second}) {
      found.addresses.emplace_back(
          tcp::endpoint(boost::asio::ip::address_v4::loopback(), server->endpoint().port));
    }
    if (servers->is_first_doubled)
      found.addresses.insert(found.addresses.begin(), found.addresses[0]);
    if (servers->turn && servers->lookups++ % 2 != 0) std::ranges::reverse(found.addresses);
    return found;
  }

  // Which server the next attempt leads to.
  int led_to() {
    EXPECT_EQ(connect(stream_), "");
    stream_->close(false);
    const bool first = two_.first.has_caller();
    (first ? two_.first : two_.second).accept();
    return first ? 1 : 2;
  }

  struct Servers {
    FakeServer first;
    FakeServer second;
    bool turn = false;  // Each lookup finds them in the other order.
    int lookups = 0;
    bool is_first_doubled = false;
  };
  static inline Servers* servers = nullptr;
  Servers two_;
  const Stream stream_ = make({.host = "two", .port = 1}, look_up_both);
};

// Servers of names (DNS) may tell the addresses in another order each time.
TEST_F(TwoAddresses, AnUnusableOneIsSkippedWhereverItIsFound) {
  two_.turn = true;
  for (int i = 0; i < 3; ++i) {
    const int left = led_to();
    stream_->pass_over_address();
    for (int again = 0; again < 3; ++again) EXPECT_EQ(led_to(), 3 - left);
  }
}

// Two lines of /etc/hosts may say the same.
TEST_F(TwoAddresses, AnUnusableOneIsSkippedWhereverItIsFoundTwice) {
  two_.is_first_doubled = true;
  EXPECT_EQ(led_to(), 1);
  stream_->pass_over_address();
  EXPECT_EQ(led_to(), 2);
}

TEST_F(TwoAddresses, OneThatRefusesIsFollowedByTheNext) {
  two_.first.stop_listening();
  EXPECT_EQ(connect(stream_), "");
  EXPECT_TRUE(two_.second.has_caller());
}

TEST_F(ClientStreamTest, KnowsASocketThatIsItsOwnPeer) {
  const tcp::endpoint any_port(boost::asio::ip::address_v4::loopback(), 0);
  IoSocket socket(context_.asio()->get_executor());
  socket.open(any_port.protocol());
  socket.bind(any_port);
  socket.connect(socket.local_endpoint());
  EXPECT_TRUE(is_its_own_peer(socket));
  const FakeServer server;
  IoSocket other(context_.asio()->get_executor());
  other.connect(tcp::endpoint(any_port.address(), server.endpoint().port));
  EXPECT_FALSE(is_its_own_peer(other));
}

}  // namespace
}  // namespace sluice

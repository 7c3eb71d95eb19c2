// How a pipeline finds a server, whose thread the test is.

#include "net/look_up.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

#include "testing/child_process.h"
#include "testing/refuse_system_call.h"
#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using boost::asio::ip::tcp;
using testing::IsEmpty;
using testing::Not;

using LookUp = LookupResult (*)(const Endpoint&);

// A pipeline that makes no pauses.
class LonePipeline {
 public:
  explicit LonePipeline(const Endpoint& endpoint, LookUp look_up = look_up_host,
                        std::chrono::milliseconds connect_timeout = std::chrono::seconds(60)) {
    pipeline = RequestPipeline::make(context,
                                     {.endpoint = endpoint,
                                      .connect_timeout = connect_timeout,
                                      .least_pause = std::chrono::milliseconds(0),
                                      .most_pause = std::chrono::milliseconds(0),
                                      .look_up = look_up},
                                     user);
    pipeline->start();
  }

  template <typename Condition>
  void run_until(Condition condition) {
    while (!condition()) context.asio()->run_one();
  }
  // Why the next attempt has failed; empty if it has not.
  std::string connect() {
    const std::size_t ups = user.ups;
    const std::size_t downs = user.downs.size();
    run_until([&] { return user.ups > ups || user.downs.size() > downs; });
    return user.ups > ups ? "" : user.downs.back();
  }

  IoContext context;
  Board board;
  LineUser user{board};
  std::shared_ptr<RequestPipeline> pipeline;
};

TEST(LookUp, AnAddressNeedsNone) {
  const FakeServer server;
  const auto never = [](const Endpoint&) -> LookupResult { std::abort(); };
  EXPECT_EQ(LonePipeline(server.endpoint(), never).connect(), "");
  EXPECT_EQ(LonePipeline({.unix_path = std::string(200, 'x')}, never).connect(),
            "cannot find the address of unix:" + std::string(200, 'x') +
                ": its path has 200 bytes, a socket's has 107 at most");
  EXPECT_EQ(LonePipeline({.unix_path = "/no/socket"}, never).connect(),
            "cannot connect to unix:/no/socket: No such file or directory");
}

TEST(LookUp, SaysWhyThereIsNoAddress) {
  const LookupResult found = look_up_host({.host = "no host has blanks", .port = 80});
  EXPECT_THAT(found.addresses, IsEmpty());
  EXPECT_THAT(found.error, Not(IsEmpty()));
  EXPECT_EQ(LonePipeline({.host = "no host has blanks", .port = 80}).connect(),
            "cannot find the address of no host has blanks:80: " + found.error);
}

// A child of fork() has none of the parent's threads.
TEST(LookUp, FindsAnAddressInAChildProcessToo) {
  const FakeServer server;
  const Endpoint named{.host = "localhost", .port = server.endpoint().port};
  EXPECT_EQ(LonePipeline(named).connect(), "");
  EXPECT_EQ(in_child_process([&] { return LonePipeline(named).connect().empty(); }), 0);
  EXPECT_EQ(in_child_process([&] {
              if (!refuse_system_call(SYS_clone3)) return false;
              const std::string why = LonePipeline(named).connect();
              return why.starts_with("cannot find the address of localhost:");
            }),
            0);
}

// A lookup that a test lets go on.
std::binary_semaphore lookup_may_end{0};
std::atomic<int> lookups = 0;

LookupResult look_up_late(const Endpoint& endpoint) {
  ++lookups;
  EXPECT_EQ(endpoint.host, "late");
  lookup_may_end.acquire();
  return look_up_host({.host = "127.0.0.1", .port = endpoint.port});
}

TEST(LookUp, ALateOneServesOnlyTheNextAttempt) {
  const FakeServer server;
  lookups = 0;
  const Endpoint late{.host = "late", .port = server.endpoint().port};
  LonePipeline client(late, look_up_late, std::chrono::milliseconds(100));
  const std::string error = "cannot find the address of " + late.text() + " within 100 ms";
  EXPECT_EQ(client.connect(), error);
  EXPECT_EQ(client.connect(), error);
  lookup_may_end.release();
  client.run_until([&] { return client.user.ups == 1; });
  EXPECT_EQ(lookups, 1);
  client.pipeline->reconnect("again");
  EXPECT_EQ(client.connect(), "again");
  EXPECT_EQ(client.connect(), error);
  lookup_may_end.release();
  client.run_until([&] { return client.user.ups == 2; });
  EXPECT_EQ(lookups, 2);
}

sigset_t lookup_blocks;

LookupResult note_blocked_signals(const Endpoint&) {
  ::pthread_sigmask(SIG_SETMASK, nullptr, &lookup_blocks);
  return {{}, "noted"};
}

// The thread that connects may be the program's, which handles its signals.
TEST(LookUp, TakesNoSignalOfTheProgram) {
  EXPECT_THAT(LonePipeline({.host = "name", .port = 1}, note_blocked_signals).connect(),
              Not(IsEmpty()));
  EXPECT_EQ(::sigismember(&lookup_blocks, SIGTERM), 1);
  sigset_t own;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(::sigismember(&own, SIGTERM), 0);
}

TEST(LookUp, MayEndWhenThePipelineAndItsContextHaveGone) {
  auto client = std::make_unique<LonePipeline>(Endpoint{.host = "late", .port = 1}, look_up_late);
  const std::weak_ptr<boost::asio::io_context> asio = client->context.asio();
  client->context.asio()->poll();
  client->pipeline.reset();
  client->context.asio()->poll();
  client.reset();
  EXPECT_FALSE(asio.expired());
  lookup_may_end.release();
  while (!asio.expired()) std::this_thread::yield();
}

// A name with two addresses, each of which leads to another server.
class TwoAddresses : public testing::Test {
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

  // Which server the next attempt leads to. It closes the connection.
  int led_to() {
    client_.run_until([&, ups = client_.user.ups] { return client_.user.ups > ups; });
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
  LonePipeline client_{{.host = "two", .port = 1}, look_up_both};
};

// Servers of names (DNS) may tell the addresses in another order each time.
TEST_F(TwoAddresses, AnUnusableOneIsSkippedWhereverItIsFound) {
  two_.turn = true;
  for (int i = 0; i < 3; ++i) {
    const int left = led_to();
    client_.pipeline->reconnect("it is of no use");
    for (int again = 0; again < 3; ++again) EXPECT_EQ(led_to(), 3 - left);
  }
}

// Two lines of /etc/hosts may say the same.
TEST_F(TwoAddresses, AnUnusableOneIsSkippedWhereverItIsFoundTwice) {
  two_.is_first_doubled = true;
  EXPECT_EQ(led_to(), 1);
  client_.pipeline->reconnect("it is of no use");
  EXPECT_EQ(led_to(), 2);
}

TEST_F(TwoAddresses, OneThatRefusesIsFollowedByTheNext) {
  two_.first.stop_listening();
  EXPECT_EQ(client_.connect(), "");
  EXPECT_TRUE(two_.second.has_caller());
}

TEST(AsioTypes, KnowsASocketThatIsItsOwnPeer) {
  const tcp::endpoint any_port(boost::asio::ip::address_v4::loopback(), 0);
  boost::asio::io_context context;
  IoSocket socket(context.get_executor());
  socket.open(any_port.protocol());
  socket.bind(any_port);
  socket.connect(socket.local_endpoint());
  EXPECT_TRUE(is_its_own_peer(socket));
  const FakeServer server;
  IoSocket other(context.get_executor());
  other.connect(tcp::endpoint(any_port.address(), server.endpoint().port));
  EXPECT_FALSE(is_its_own_peer(other));
}

}  // namespace
}  // namespace sluice

// The store under sentinels that do not agree.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

void cut_one_connection(const RedisServer& server) {
  const std::string clients = server.command({"CLIENT", "LIST", "TYPE", "NORMAL"});
  const std::size_t line = clients.rfind("id=", clients.find(" name=sluice "));
  const std::string id = clients.substr(line + 3, clients.find(' ', line) - line - 3);
  EXPECT_EQ(server.command({"CLIENT", "KILL", "ID", id}), "1");
}

RedisOptions two_connections(const RedisServer& sentinel, const servers::FaultProxy& to_other,
                             std::chrono::nanoseconds deadline) {
  RedisOptions options = options_for(sentinel, deadline, Topology::kSentinel);
  options.servers.push_back({.host = "127.0.0.1", .port = to_other.port()});
  options.connections = 2;
  return options;
}

std::vector<Request> some_of_each_connection(Limited& limited) {
  constexpr std::string_view kKeys = "abcdefghijklmnopqrst";
  std::vector<Request> requests;
  for (std::size_t i = 0; i < kKeys.size(); ++i) {
    requests.push_back(limited.request(kKeys.substr(i, 1)));
  }
  return requests;
}

// Its other connection serves: that one of two sentinels names another is not enough.
TEST(RedisStoreUnderSentinel, KeepsAPrimaryThatHasLostOneOfItsConnections) {
  const RedisServer primary;
  const RedisServer other;
  servers::FaultProxy to_primary(primary.port());
  const RedisServer sentinel(sentinel_of(to_primary.port()));
  const RedisServer liar(sentinel_of(other.port()));
  std::atomic<int> lies = 0;  // Lives longer than the thread of the proxy, which counts them.
  servers::FaultProxy to_liar(liar.port());
  to_liar.refuse();
  Limited limited(two_connections(sentinel, to_liar, 5s), "fixed_window 1000/24h");
  const std::vector<Request> requests = some_of_each_connection(limited);
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));

  to_primary.refuse();
  cut_one_connection(primary);
  servers::await("the keys of one connection to be unanswered", [&] {
    const auto answered = sources(limited, requests);
    return std::ranges::count(answered, Source::kUnavailable) > 0;
  });
  to_liar.pass();
  to_liar.edit_replies([&](const std::string& replies) {
    if (replies.find(std::to_string(other.port())) != std::string::npos) ++lies;
  });
  servers::await("three lies", [&] { return lies >= 3; });
  EXPECT_THAT(sources(limited, requests), testing::Contains(Source::kStore));
  EXPECT_FALSE(is_connected(other));
}

// What it named before counts no more: the sentinel that names the old primary is one of three.
TEST(RedisStoreUnderSentinel, ASentinelThatHasGoneDoesNotCount) {
  const RedisServer primary;
  const RedisServer other;
  servers::FaultProxy to_other(other.port());
  const RedisServer sentinel(sentinel_of(primary.port()));
  const RedisServer liar(sentinel_of(to_other.port()));
  RedisServer gone(sentinel_of(to_other.port()));
  std::atomic<int> lies = 0;  // Lives longer than the thread of the proxy, which counts them.
  servers::FaultProxy to_sentinel(sentinel.port());
  servers::FaultProxy to_liar(liar.port());
  to_sentinel.refuse();
  to_liar.refuse();
  RedisOptions options = options_for(gone, 5s, Topology::kSentinel);
  options.servers.push_back({.host = "127.0.0.1", .port = to_sentinel.port()});
  options.servers.push_back({.host = "127.0.0.1", .port = to_liar.port()});
  Limited limited(options, "fixed_window 1000/24h");
  limited.check("k");
  EXPECT_TRUE(is_connected(other));

  gone.kill();
  to_other.refuse();
  to_other.cut_now();
  to_sentinel.pass();
  servers::await("the new primary", [&] { return is_connected(primary); });
  to_other.pass();
  to_liar.pass();
  to_liar.edit_replies([&](const std::string& replies) {
    if (replies.find(std::to_string(to_other.port())) != std::string::npos) ++lies;
  });
  servers::await("two lies", [&] { return lies >= 2; });
  limited.check("k");
  EXPECT_TRUE(is_connected(primary));
  EXPECT_FALSE(is_connected(other));
}

// What a connection is not asked tells nothing of the server either: it does not make a primary
// serve that has fallen silent, and which is replaced as soon as one sentinel names another.
TEST(RedisStoreUnderSentinel, LeavesAPrimaryThatIsSilentWhileAConnectionIsIdle) {
  RedisServer primary;
  const RedisServer other;
  const RedisServer sentinel(sentinel_of(primary.port()));
  const RedisServer second(sentinel_of(other.port()));
  servers::FaultProxy to_second(second.port());
  to_second.refuse();
  Limited limited(two_connections(sentinel, to_second, 200ms), "fixed_window 1000000/24h");
  const std::vector<Request> requests = some_of_each_connection(limited);
  servers::await("both connections", [&] {
    return std::ranges::count(sources(limited, requests), Source::kStore) == 20;
  });
  primary.pause();
  to_second.pass();
  servers::await("the other to be asked",
                 [&] { return sources(limited, {requests.front()}).front() == Source::kStore; });
  EXPECT_TRUE(is_connected(other));
  primary.resume();
}

}  // namespace
}  // namespace sluice::redis

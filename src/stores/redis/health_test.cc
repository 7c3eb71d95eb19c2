// What a store says of its servers, and of a URL that leads to another kind of server than it
// names.

#include "sluice/health.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>

#include "net/tls_client.h"
#include "servers/await.h"
#include "servers/redis_sentinel.h"
#include "testing/error_of.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

using State = StoreHealth::State;
using testing::HasSubstr;

RedisOptions with_deadline(const RedisOptions& options, std::chrono::nanoseconds deadline) {
  RedisOptions other = options;
  other.deadline = deadline;
  return other;
}

// Why the first decision has no answer, given within half of the deadline.
std::string error_at_once(Limited& limited) {
  const auto began = std::chrono::steady_clock::now();
  std::string error = error_of([&] { limited.check("k"); });
  EXPECT_LT(std::chrono::steady_clock::now() - began, 10s);
  return error;
}

TEST(RedisStoreHealth, SaysThatTheServerIsLostAndBack) {
  auto server = std::make_unique<RedisServer>();
  const std::uint16_t port = server->port();
  Limited limited(options_for(*server), "token_bucket 10/1h");
  limited.check("k");
  EXPECT_EQ(health_of(limited).state, State::kUp);
  // The caller may go on before the worker thread has noted its answer.
  servers::await("the answer", [&] { return health_of(limited).answered_by_store == 1; });
  EXPECT_GT(health_of(limited).round_trip_p50, 0ns);
  EXPECT_GE(health_of(limited).round_trip_p99, health_of(limited).round_trip_p50);
  server.reset();
  servers::await("the loss", [&] { return health_of(limited).state == State::kDown; });
  EXPECT_THAT(health_of(limited).reason,
              HasSubstr("cannot connect to 127.0.0.1:" + std::to_string(port)));
  const RedisServer again({.port = port});
  servers::await("the return", [&] { return health_of(limited).state == State::kUp; });
  EXPECT_GE(health_of(limited).times_lost, 1U);
}

// It is lost until it is the primary, not anew each time that it accepts a connection. To know it,
// a user needs no further right.
TEST(RedisStoreHealth, AReplicaIsLostUntilItIsThePrimary) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">pass", "~*", "&*", "+@all", "-role"});
  RedisOptions named = with_deadline(options_for(server), 20s);
  named.user = "app";
  named.password = "pass";
  for (const RedisOptions& options : {with_deadline(options_for(server), 20s), named}) {
    server.command({"REPLICAOF", "127.0.0.1", std::to_string(servers::free_port())});
    Limited limited(options, "token_bucket 10/1h");
    const std::string error =
        "redis " + options.servers[0].text() + " is a replica, not the primary";
    EXPECT_EQ(error_at_once(limited), error);
    const auto connections = [&] { return std::stoi(server.info("total_connections_received")); };
    servers::await("further attempts",
                   [&, before = connections()] { return connections() >= before + 5; });
    EXPECT_EQ(health_of(limited).state, State::kDown);
    EXPECT_EQ(health_of(limited).reason, error);
    server.command({"REPLICAOF", "NO", "ONE"});
    servers::await("the return", [&] { return health_of(limited).state == State::kUp; });
    EXPECT_EQ(health_of(limited).times_lost, 1U);
  }
  EXPECT_EQ(server.command({"ACL", "LOG"}), "");
}

TEST(RedisStoreHealth, NamesAServerThatIsNotWhatTheUrlSays) {
  const RedisServer server;
  RedisOptions cluster = with_deadline(options_for(server), 20s);
  RedisOptions with_tls = cluster;
  RedisOptions sentinel = cluster;
  cluster.topology = Topology::kCluster;
  with_tls.servers[0].tls = std::make_shared<TlsContext>(TlsOptions{.insecure = true});
  sentinel.topology = Topology::kSentinel;
  sentinel.primary_name = "it";
  for (const auto& [options, error] :
       {std::pair(cluster,
                  " is no node of a cluster (ERR This instance has cluster support disabled): "
                  "the URL of a single server is redis://"),
        std::pair(with_tls, "the server speaks without TLS"),
        std::pair(sentinel, " is no sentinel (ERR ")}) {
    Limited limited(options, "token_bucket 10/1h");
    EXPECT_THAT(error_at_once(limited), HasSubstr(error));
    EXPECT_EQ(health_of(limited).state, State::kDown);
    EXPECT_THAT(health_of(limited).reason, HasSubstr(error));
  }
}

TEST(RedisStoreHealth, NamesAPrimaryThatNoSentinelKnows) {
  const RedisServer sentinel({.config = {"sentinel monitor it 127.0.0.1 1 1"}, .sentinel = true});
  RedisOptions options = with_deadline(options_for(sentinel), 20s);
  options.topology = Topology::kSentinel;
  options.primary_name = "that";
  Limited limited(options, "token_bucket 10/1h");
  EXPECT_THAT(error_at_once(limited), HasSubstr(" knows no primary 'that'"));
}

TEST(RedisStoreHealth, OfASentinelFleetIsThatOfThePrimary) {
  const RedisServer primary;
  const RedisServer sentinel(
      {.config = {"sentinel monitor it 127.0.0.1 " + std::to_string(primary.port()) + " 1"},
       .password = "secret",
       .sentinel = true});
  RedisOptions options = options_for(sentinel);
  options.servers.push_back({.host = "127.0.0.1", .port = 1});  // A sentinel that is away.
  options.topology = Topology::kSentinel;
  options.primary_name = "it";
  options.sentinel_password = "secret";
  Limited limited(options, "token_bucket 10/1h");
  EXPECT_EQ(limited.check("k").remaining, 9);
  EXPECT_EQ(health_of(limited).state, State::kUp);
  EXPECT_EQ(health_of(limited).times_lost, 0U);
}

}  // namespace
}  // namespace sluice::redis

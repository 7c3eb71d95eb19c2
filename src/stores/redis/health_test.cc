// What a store says of its servers, and of a URL that leads to another kind of server than it
// names.

#include "sluice/health.h"

#include <gmock/gmock.h>

#include <atomic>
#include <chrono>
#include <string>

#include "net/tls_client.h"
#include "servers/await.h"
#include "testing/error_of.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

using State = StoreHealth::State;
using testing::HasSubstr;

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
  std::atomic<int> times_up = 0;
  Limited limited(options_for(*server), "token_bucket 10/1h");
  limited.check("k");
  EXPECT_EQ(health_of(limited).state, State::kUp);
  // The caller may go on before the worker thread has noted its answer.
  servers::await("the answer", [&] { return health_of(limited).answered_by_store == 1; });
  EXPECT_GT(health_of(limited).round_trip_p50, 0ns);
  EXPECT_GE(health_of(limited).round_trip_p99, health_of(limited).round_trip_p50);
  limited.store().on_up([&] { ++times_up; });
  server.reset();
  servers::await("the loss", [&] { return health_of(limited).state == State::kDown; });
  // At first the reason may be that the connection was reset.
  servers::await("the reason", [&] {
    const std::string why = "cannot connect to 127.0.0.1:" + std::to_string(port);
    return health_of(limited).reason.find(why) != std::string::npos;
  });
  const int before = times_up;
  const RedisServer again({.port = port});
  servers::await("the return", [&] { return health_of(limited).state == State::kUp; });
  servers::await("the call of it", [&] { return times_up > before; });
  EXPECT_GE(health_of(limited).times_lost, 1U);
}

// It is lost until it is the primary, not anew each time that it accepts a connection. To know it,
// a user needs no further right.
TEST(RedisStoreHealth, AReplicaIsLostUntilItIsThePrimary) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "app", "on", ">pass", "~*", "&*", "+@all", "-role"});
  RedisOptions named = options_for(server, 20s);
  named.user = "app";
  named.password = "pass";
  for (const RedisOptions& options : {options_for(server, 20s), named}) {
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

// It answers all commands but writes and scripts.
TEST(RedisStoreHealth, AServerThatLetsWritesWaitIsLostOnce) {
  const RedisServer server;
  Limited limited(options_for(server, 10ms), "token_bucket 10/1h");
  servers::await("the store", [&] { return error_of([&] { limited.check("k"); }).empty(); });
  const std::uint64_t before = health_of(limited).times_lost;
  server.command({"CLIENT", "PAUSE", "100000", "WRITE"});
  servers::await("a probe", [&] {
    error_of([&] { limited.check("k"); });
    return health_of(limited).reason.find("has not completed the handshake") != std::string::npos;
  });
  server.command({"CLIENT", "UNPAUSE"});
  servers::await("the return", [&] { return health_of(limited).state == State::kUp; });
  EXPECT_EQ(health_of(limited).times_lost, before + 1);
}

TEST(RedisStoreHealth, NamesAServerThatIsNotWhatTheUrlSays) {
  const RedisServer server;
  RedisOptions with_tls = options_for(server, 20s);
  with_tls.servers[0].tls = std::make_shared<TlsContext>(TlsOptions{.insecure = true});
  for (const auto& [options, error] :
       {std::pair(options_for(server, 20s, Topology::kCluster),
                  " is no node of a cluster (ERR This instance has cluster support disabled): "
                  "the URL of a single server is redis://"),
        std::pair(with_tls, "the server speaks without TLS"),
        std::pair(options_for(server, 20s, Topology::kSentinel), " is no sentinel (ERR ")}) {
    Limited limited(options, "token_bucket 10/1h");
    EXPECT_THAT(error_at_once(limited), HasSubstr(error));
    EXPECT_EQ(health_of(limited).state, State::kDown);
    EXPECT_THAT(health_of(limited).reason, HasSubstr(error));
  }
}

TEST(RedisStoreHealth, ARefusedHandshakeDoesNotQuoteTheScript) {
  const RedisServer server({.config = {"rename-command SCRIPT \"\""}});
  Limited limited(options_for(server, 20s), "token_bucket 10/1h");
  EXPECT_EQ(error_at_once(limited),
            "redis " + options_for(server).servers[0].text() + ": ERR unknown command 'SCRIPT'");
}

TEST(RedisStoreHealth, OfASentinelFleetIsThatOfThePrimary) {
  const RedisServer primary;
  const RedisServer sentinel(sentinel_of(primary.port(), "secret"));
  RedisOptions options = options_for(sentinel, 5s, Topology::kSentinel);
  options.servers.push_back({.host = "127.0.0.1", .port = 1});  // A sentinel that is away.
  options.sentinel_password = "secret";
  Limited limited(options, "token_bucket 10/1h");
  EXPECT_EQ(limited.check("k").remaining, 9);
  EXPECT_EQ(health_of(limited).state, State::kUp);
  EXPECT_EQ(health_of(limited).times_lost, 0U);
}

// It is of another process with time=client, or of the server before it was set back.
TEST(RedisStoreHealth, NoticesAStateThatALaterClockHasWritten) {
  const RedisServer server;
  for (const bool client_time : {true, false}) {
    for (const char* expression :
         {"fixed_window 10/1h anchor=first", "fixed_window 10/1h", "sliding_log 10/1h",
          "sliding_window 10/1h", "sliding_counter 10/1h", "token_bucket 10/1h",
          "token_bucket 10/1s", "leaky_bucket 10/1h queue=9", "concurrency 10",
          "token_bucket 10/1h & sliding_log 10/1h"}) {
      SCOPED_TRACE(expression);
      RedisOptions options = options_for(server);
      options.client_time = client_time;
      options.prefix = client_time ? "client" : "server";
      Limited limited(options, expression);
      Request asked = limited.request(expression);
      const auto decide_ahead_by = [&](std::int64_t ahead_ns) {
        RedisStore& store = limited.store();
        ++asked.permit;
        EXPECT_TRUE(store.decide_one(asked, store.now() + ahead_ns).allowed);
      };
      decide_ahead_by(kSecondNs / 2);
      limited.check(expression, 0);
      EXPECT_EQ(health_of(limited).clock_behind, 0U) << "as much is tolerated";
      decide_ahead_by(kMinuteNs);
      limited.check(expression, 0);
      const StoreHealth health = health_of(limited);
      EXPECT_EQ(health.clock_behind, 1U);
      EXPECT_GT(health.clock_lag, 50s);
      EXPECT_LE(health.clock_lag, 60s);
      EXPECT_EQ(health.late_clock, client_time ? "this process's clock"
                                               : "the clock of redis " + options.servers[0].text());
    }
  }
}

// It is up: what it says is told without the key, which is in the caller's error.
TEST(RedisStoreHealth, TellsWhatAServerThatIsUpRefuses) {
  const RedisServer server;
  const std::string name = "redis " + options_for(server).servers[0].text() + ": ";
  Limited limited(options_for(server), "token_bucket 10/1h");
  limited.check("k");
  EXPECT_EQ(health_of(limited).refused, 0U);
  server.command({"CONFIG", "SET", "maxmemory", "1"});
  EXPECT_THAT(error_of([&] { limited.check("k"); }), HasSubstr("OOM"));
  StoreHealth health = health_of(limited);
  EXPECT_EQ(health.state, State::kUp);
  EXPECT_EQ(health.refused, 1U);
  EXPECT_THAT(health.refusal, testing::StartsWith(name + "OOM "));
  server.command({"CONFIG", "SET", "maxmemory", "0"});
  server.command({"LPUSH", "sluice:test:{list}", "x"});
  EXPECT_THAT(error_of([&] { limited.check("list"); }), HasSubstr("list"));
  health = health_of(limited);
  EXPECT_EQ(health.refused, 2U);
  EXPECT_THAT(health.refusal, testing::StartsWith(name + "WRONGTYPE "));
  EXPECT_THAT(health.refusal, testing::Not(HasSubstr("test:")));
}

TEST(RedisStoreHealth, NamesNoKeyOfACommandThatTheServerDoesNotKnow) {
  const RedisServer server({.config = {"rename-command EVALSHA \"\""}});
  Limited limited(options_for(server), "token_bucket 10/1h");
  EXPECT_THAT(error_of([&] { limited.check("alice"); }), HasSubstr("unknown command 'EVALSHA'"));
  EXPECT_THAT(health_of(limited).refusal, testing::EndsWith("unknown command 'EVALSHA'"));
}

}  // namespace
}  // namespace sluice::redis

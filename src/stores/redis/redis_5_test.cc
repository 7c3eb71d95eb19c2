// What is asked of servers: nothing that Redis 5 has not, and nothing beyond the documented rights.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <semaphore>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/instant.h"
#include "servers/redis_cluster.h"
#include "servers/redis_sentinel.h"
#include "testing/error_of.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

// The names of the commands that the server has run, "script|load" for a subcommand.
std::set<std::string> commands_run(const RedisServer& server) {
  std::set<std::string> names;
  std::istringstream lines(server.command({"INFO", "commandstats"}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("cmdstat_");
    if (at != std::string::npos) names.insert(line.substr(at + 8, line.find(':') - at - 8));
  }
  return names;
}

void ask_everything(RedisStore& store, Instant now) {
  for (const char* expression :
       {"token_bucket 5/1s", "leaky_bucket 5/1s queue=3", "fixed_window 5/1s",
        "fixed_window 5/1s anchor=first", "sliding_log 500/1h", "sliding_window 5/1s",
        "sliding_counter 5/1s", "token_bucket 5/1s & sliding_log 5/1h", "concurrency 1"}) {
    const Limit limit(expression);
    const auto space = store.open_space(limit.definition());
    Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
    request.duration_ns = 1;
    Decision decision;
    const auto operations =
        lends(limit.definition())
            ? std::vector{Operation::kTake, Operation::kRenew, Operation::kRelease}
            : std::vector{Operation::kTake, Operation::kTakeUpTo, Operation::kCharge,
                          Operation::kRefund};
    for (const auto operation : operations) {
      request.operation = operation;
      for (int i = 0; i < 20; ++i) {
        request.permit = 1;
        store.decide({&request, 1}, now, {&decision, 1});
      }
    }
    for (const auto operation : {Operation::kBlock, Operation::kReset}) {
      request.operation = operation;
      store.decide({&request, 1}, now, {&decision, 1});
      EXPECT_TRUE(decision.allowed);
    }
    request.operation = Operation::kTake;
    if (!lends(limit.definition())) {
      EXPECT_TRUE(store.decide_all({&request, 1}, now).allowed);
    }
    std::binary_semaphore watched{0};
    const auto watch = store.watch(space, "k", [&] { watched.release(); });
    EXPECT_TRUE(watched.try_acquire_for(5s));
  }
}

// In which version the commands have come; a server tells of those that it has itself.
void expect_since_redis_5(const RedisServer& server, const std::set<std::string>& commands) {
  for (const std::string& name : commands) {
    const auto docs = server.client().ask({"COMMAND", "DOCS", name});
    ASSERT_EQ(docs.elements.size(), 2U) << name;
    const auto& fields = docs.elements[1].elements;
    const auto since = std::find_if(fields.begin(), fields.end(),
                                    [](const auto& field) { return field.text == "since"; });
    ASSERT_NE(since, fields.end()) << name;
    EXPECT_LE(std::stoi((since + 1)->text), 5) << name << " since " << (since + 1)->text;
  }
}

TEST(RedisStore, AsksNothingThatRedis5HasNot) {
  const RedisServer server({.password = "open-sesame"});
  RedisOptions options = options_for(server);
  options.password = "open-sesame";
  options.database = 1;
  options.virtual_time = true;
  { ask_everything(*std::make_unique<RedisStore>(options), 1'000'000'000'000); }
  const std::set<std::string> run = commands_run(server);
  EXPECT_THAT(run, testing::IsSupersetOf({"evalsha", "script|load", "scan", "unlink", "auth"}));
  // What the script itself calls is among what was run.
  EXPECT_THAT(run,
              testing::IsSupersetOf({"get", "set", "setrange", "del", "publish", "subscribe"}));
  expect_since_redis_5(server, run);
}

// Also while a slot moves.
TEST(RedisStore, AsksNothingOfAClusterThatRedis5HasNot) {
  servers::RedisCluster cluster;
  RedisOptions options{.topology = Topology::kCluster, .servers = {}, .deadline = 5s};
  options.servers = {{.host = "127.0.0.1", .port = cluster.node(0).port()}};
  const int slot = cluster.slot_of("sluice:test:{k}");
  const servers::RedisCluster::SlotMove move{.slot = slot, .to = (cluster.owner_of(slot) + 1) % 3};
  {
    Limited limited(options, "fixed_window 5/24h");
    ask_everything(limited.store(), kStoreTime);
    cluster.begin_move(move);
    EXPECT_EQ(limited.check("k").remaining, 4);  // After ASK.
  }
  std::set<std::string> run;
  for (std::size_t i = 0; i < cluster.size(); ++i) run.merge(commands_run(cluster.node(i)));
  EXPECT_THAT(run, testing::IsSupersetOf({"asking", "cluster|slots", "evalsha", "time"}));
  expect_since_redis_5(cluster.node(0), run);
}

// A sentinel does not count what it runs, but says what each client has asked last.
TEST(RedisStore, AsksNothingOfSentinelsThatRedis5HasNot) {
  servers::RedisSentinel fleet;
  RedisOptions options{.topology = Topology::kSentinel,
                       .servers = {},
                       .primary_name = servers::RedisSentinel::kMasterName,
                       .deadline = 5s};
  // Of several, the first that is up is asked.
  options.servers = {{.host = "127.0.0.1", .port = fleet.sentinel(0).port()}};
  RedisStore store(options);
  ask_everything(store, kStoreTime);
  std::set<std::string> asked;
  std::istringstream clients(fleet.sentinel(0).command({"CLIENT", "LIST"}));
  for (std::string client; std::getline(clients, client);) {
    if (client.find(" name=sluice ") == std::string::npos) continue;
    const std::size_t at = client.find(" cmd=") + 5;
    asked.insert(client.substr(at, client.find(' ', at) - at));
  }
  EXPECT_THAT(asked, testing::Contains("sentinel|get-master-addr-by-name"));
  // The handshake has PING and CLIENT SETNAME, as with all servers.
  expect_since_redis_5(fleet.sentinel(0), asked);
  const std::set<std::string> run = commands_run(fleet.first_primary());
  EXPECT_THAT(run, testing::IsSupersetOf({"role", "evalsha", "ping", "client|setname"}));
  expect_since_redis_5(fleet.first_primary(), run);
}

// Adds the user by the line of docs/redis.md.
void add_documented_user(const RedisServer& server) {
  const auto sources = std::filesystem::path(__FILE__).parent_path();
  std::ifstream page(sources / "../../../docs/redis.md");
  std::string line;
  while (std::getline(page, line) && !line.starts_with("ACL SETUSER")) {
  }
  std::istringstream words(line);
  using Word = std::istream_iterator<std::string>;
  EXPECT_EQ(server.command(std::vector<std::string>(Word(words), Word())), "OK") << line;
}

RedisOptions options_of_user(const RedisServer& server) {
  RedisOptions options = options_for(server);
  options.user = "app";
  options.password = "password";
  return options;
}

// With the documented rights, nothing is refused.
TEST(RedisStore, NeedsNoMoreRightsThanAreDocumented) {
  const RedisServer server;
  add_documented_user(server);
  RedisOptions options = options_of_user(server);
  options.database = 1;
  RedisStore store(options);
  ask_everything(store, kStoreTime);
  EXPECT_TRUE(is_connected(server));
  EXPECT_EQ(server.command({"ACL", "LOG"}), "");
}

// Without +pexpire a sliding log whose entries have all gone cannot be kept any longer: nothing of
// the request is written, and the error names the key.
TEST(RedisStore, AUserWhoMayNotPutOffAnExpiryIsChargedNothing) {
  const RedisServer server;
  add_documented_user(server);
  server.command({"ACL", "SETUSER", "app", "-pexpire"});
  Limited limited(options_of_user(server), "sliding_log 5/1h");
  const auto take = [&](std::int64_t cost, Instant now) {
    const Request request = limited.request("k", cost);
    Decision decision;
    limited.store().decide({&request, 1}, now, {&decision, 1});
    return decision;
  };
  const Instant now = 100 * kHourNs;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(1, now + i).remaining, 4 - i);
  const Instant later = now + 3 * kHourNs;
  EXPECT_THAT(error_of([&] { take(1, later); }),
              testing::AllOf(testing::HasSubstr("can't run this command"),
                             testing::HasSubstr("'sluice:test:{k}'")));
  EXPECT_EQ(take(0, later).remaining, 5);
  // What is within a block is written as a whole, which needs no such right.
  Request request = limited.request("k");
  request.duration_ns = kHourNs;
  for (const auto operation : {Operation::kBlock, Operation::kCharge}) {
    request.operation = operation;
    Decision decision;
    limited.store().decide({&request, 1}, later, {&decision, 1});
  }
  EXPECT_EQ(take(1, later).retry_after.count(), kHourNs);
  EXPECT_NE(server.command({"PTTL", "sluice:test:{k}"}), "-1");
  EXPECT_EQ(take(0, later + kHourNs - 1).remaining, 0);
  EXPECT_EQ(take(1, later + kHourNs).remaining, 4);
}

}  // namespace
}  // namespace sluice::redis

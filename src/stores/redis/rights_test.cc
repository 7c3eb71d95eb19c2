// What is asked of servers: nothing beyond the documented rights, which are for commands that Redis
// 5 has.

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <semaphore>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/instant.h"
#include "servers/await.h"
#include "servers/redis_cluster.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"
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

void ask_everything(RedisStore& store) {
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
        store.decide({&request, 1}, kStoreTime, {&decision, 1});
      }
    }
    for (const auto operation : {Operation::kBlock, Operation::kReset}) {
      request.operation = operation;
      store.decide({&request, 1}, kStoreTime, {&decision, 1});
      EXPECT_TRUE(decision.allowed);
    }
    request.operation = Operation::kTake;
    if (!lends(limit.definition())) {
      EXPECT_TRUE(store.decide_all({&request, 1}, kStoreTime).allowed);
    }
    std::binary_semaphore watched{0};
    const auto watch = store.watch(space, "k", [&] { watched.release(); });
    EXPECT_TRUE(watched.try_acquire_for(5s));
  }
  // A log whose entries have all gone, which is kept for longer.
  const Limit limit("sliding_log 5/1h");
  const auto space = store.open_space(limit.definition());
  const Request request{.limit = &limit.definition(), .space = space.get(), .key = "kept"};
  const Instant first = store.now();
  for (const Instant at : {first, first + 1, first + 2, first + 3 * kHourNs}) {
    EXPECT_TRUE(store.decide_one(request, at).allowed);
  }
}

using Words = std::vector<std::string>;

// The words that docs/redis.md has between `before` and `end`.
Words documented(const std::string& before, char end) {
  std::ifstream page(std::filesystem::path(__FILE__).parent_path() / "../../../docs/redis.md");
  const std::string text{std::istreambuf_iterator<char>(page), {}};
  const std::size_t begin = text.find(before) + before.size();
  EXPECT_GE(begin, before.size()) << before;
  std::istringstream words(text.substr(begin, text.find(end, begin) - begin));
  using Word = std::istream_iterator<std::string>;
  return {Word(words), Word()};
}

// The documented rights of a user, and further ones.
Words rights_and(const Words& further) {
  Words all = documented("ACL SETUSER app ", '\n');
  all.insert(all.end(), further.begin(), further.end());
  return all;
}

void set_user(const RedisServer& server, const std::string& name, const Words& rights) {
  Words command{"ACL", "SETUSER", name};
  command.insert(command.end(), rights.begin(), rights.end());
  EXPECT_EQ(server.command(command), "OK");
}

// The rights are for commands that Redis 5 has: a server tells of each since when it has been
// there.
void expect_since_redis_5(const RedisServer& server, const Words& rights) {
  for (const std::string& right : rights) {
    if (!right.starts_with('+')) continue;
    const auto docs = server.client().ask({"COMMAND", "DOCS", right.substr(1)});
    ASSERT_EQ(docs.elements.size(), 2U) << right;
    const auto& fields = docs.elements[1].elements;
    const auto since = std::ranges::find(fields, "since", &servers::Reply::text);
    ASSERT_NE(since, fields.end()) << right;
    EXPECT_LE(std::stoi((since + 1)->text), 5) << right << " since " << (since + 1)->text;
  }
}

void expect_run(const std::set<std::string>& run, const Words& rights) {
  for (const std::string& right : rights) {
    if (right.starts_with('+')) EXPECT_THAT(run, testing::Contains(right.substr(1)));
  }
}

RedisOptions options_of_user(const RedisServer& server) {
  RedisOptions options = options_for(server);
  options.user = "app";
  options.password = "password";
  return options;
}

// With these, nothing is refused, and each of them is for a command that is run. (`replay` is
// tested in tests/system/stores_test.py.)
TEST(RedisStore, NeedsTheRightsThatAreDocumentedAndNoOthers) {
  const RedisServer server;
  set_user(server, "app", rights_and({}));
  RedisOptions options = options_of_user(server);
  options.database = 1;
  RedisStore store(options);
  ask_everything(store);
  EXPECT_TRUE(is_connected(server));
  servers::await("the end of a subscription", [&] { return calls(server, "unsubscribe") > 0; });
  EXPECT_EQ(server.command({"ACL", "LOG"}), "");
  expect_run(commands_run(server), rights_and({}));
  expect_since_redis_5(server, rights_and(documented("`replay` needs\n  `", '`')));
  EXPECT_THAT(server.command({"INFO", "keyspace"}), testing::HasSubstr("db1:keys="));
}

TEST(RedisStore, NeedsFurtherRightsWithAPasswordAlone) {
  const RedisServer server({.password = "password"});
  const Words further = documented("`redis://:password@host`, needs `", '`');
  set_user(server, "default", {"-@all", "resetkeys", "resetchannels", "+acl", "+info", "+command"});
  set_user(server, "default", rights_and(further));
  RedisOptions options = options_for(server);
  options.password = "password";
  RedisStore store(options);
  ask_everything(store);
  EXPECT_EQ(server.command({"ACL", "LOG"}), "");
  expect_run(commands_run(server), further);
  expect_since_redis_5(server, further);
}

TEST(RedisStore, NeedsFurtherRightsOnACluster) {
  servers::RedisCluster cluster;
  const Words further = documented("`+select` is needed if the URL names a database, `", '`');
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    set_user(cluster.node(i), "app", rights_and(further));
  }
  RedisOptions options = options_of_user(cluster.node(0));
  options.topology = Topology::kCluster;
  Limited limited(options, "fixed_window 5/24h");
  ask_everything(limited.store());
  const int slot = cluster.slot_of("sluice:test:{k}");
  cluster.begin_move({.slot = slot, .to = (cluster.owner_of(slot) + 1) % 3});
  EXPECT_EQ(limited.check("k").remaining, 4);
  std::set<std::string> run;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(cluster.node(i).command({"ACL", "LOG"}), "");
    run.merge(commands_run(cluster.node(i)));
  }
  expect_run(run, further);
  expect_since_redis_5(cluster.node(0), further);
}

TEST(RedisStore, NeedsTheDocumentedRightsOfASentinelsUser) {
  const RedisServer primary;
  const RedisServer sentinel(sentinel_of(primary.port()));
  set_user(sentinel, "app", {"on", ">secret"});
  const Words rights = documented("a `sentinel_user` needs `", '`');
  set_user(sentinel, "app", rights);
  RedisOptions options = options_for(sentinel, 5s, Topology::kSentinel);
  options.sentinel_user = "app";
  options.sentinel_password = "secret";
  EXPECT_EQ(Limited(options, "fixed_window 5/24h").check("k").remaining, 4);
  EXPECT_EQ(sentinel.command({"ACL", "LOG"}), "");
  expect_since_redis_5(sentinel, rights);
}

// Without +pexpire a sliding log whose entries have all gone cannot be kept any longer, nor be
// blocked for longer: nothing of the request is written, and the error names the key.
TEST(RedisStore, AUserWhoMayNotPutOffAnExpiryIsChargedNothing) {
  const RedisServer server;
  set_user(server, "app", rights_and({}));
  server.command({"ACL", "SETUSER", "app", "-pexpire"});
  Limited limited(options_of_user(server), "sliding_log 5/1h");
  const auto take = [&](std::int64_t cost, Instant now) {
    const Request request = limited.request("k", cost);
    return limited.store().decide_one(request, now);
  };
  const Instant now = 100 * kHourNs;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(take(1, now + i).remaining, 4 - i);
  const Instant later = now + 3 * kHourNs;
  Request request = limited.request("k");
  request.duration_ns = kHourNs;
  for (const auto operation : {Operation::kTake, Operation::kBlock}) {
    request.operation = operation;
    EXPECT_THAT(error_of([&] { limited.store().decide_one(request, later); }),
                testing::AllOf(testing::HasSubstr("127.0.0.1"),
                               testing::HasSubstr("can't run this command"),
                               testing::HasSubstr("'sluice:test:{k}'")));
    EXPECT_EQ(take(0, later).remaining, 5);
  }
  // A key that was written before is charged, and its caller is told that it may be.
  const LimitedKeys other(limited.store(), "fixed_window 5/24h", "other");
  for (const bool comes_first : {true, false}) {
    std::vector<Request> list{other.request("k"), limited.request("k")};
    if (!comes_first) std::ranges::reverse(list);
    Decision decision;
    EXPECT_THROW(limited.store().decide_all(list, later, decision), StoreError);
    EXPECT_EQ(decision.taken, comes_first ? kTakenUnknown : 0);
    EXPECT_EQ(limited.store().decide_one(other.request("k", 0), later).remaining, 4);
  }
}

}  // namespace
}  // namespace sluice::redis

// The keys of a replay, which are removed at its end.

#include "stores/redis/sweep.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/redis_cluster.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

RedisOptions virtual_options(const std::vector<std::uint16_t>& ports) {
  RedisOptions options{.servers = {}, .deadline = 5s, .virtual_time = true};
  for (const auto port : ports) options.servers.push_back({.host = "127.0.0.1", .port = port});
  return options;
}

// What a store says that it has left behind, once it is destroyed.
std::string left_after(RedisOptions options, const std::function<void(Limited& limited)>& use) {
  std::string left;
  options.left_behind = [&](std::string_view what) { left = what; };
  {
    Limited limited(options, "fixed_window 5/1s");
    use(limited);
  }
  return left;
}

// So many keys as a replay leaves them.
void fill(const RedisServer& server, int count) {
  const std::string script =
      "for i = 1, ARGV[1] do redis.call('SET', 'sluice:test:{' .. i .. '}', 1) end";
  server.command({"EVAL", script, "0", std::to_string(count)});
}

// The connections of a store and nothing else.
class Swept {
 public:
  explicit Swept(const RedisOptions& options)
      : options_(options), worker_({.deadline = 5s}), router_(make_router(options_, worker_)) {
    worker_.start(*router_);
  }
  ~Swept() { worker_.stop(); }

  // Once it is connected.
  std::string sweep() { return redis::sweep(worker_, *router_, "sluice:"); }

 private:
  const RedisOptions options_;
  RemoteWorker worker_;
  std::unique_ptr<RedisRouter> router_;
};

TEST(Sweep, RemovesAPageOfKeysAtOnce) {
  const RedisServer server;
  server.command({"SET", "other", "x"});
  fill(server, 20'000);
  const auto check = [](Limited& limited) { limited.check("k"); };
  EXPECT_EQ(left_after(virtual_options({server.port()}), check), "");
  EXPECT_EQ(server.command({"DBSIZE"}), "1");
  // SCAN may give a few more than it was asked for, and nothing on its last page.
  EXPECT_LE(calls(server, "scan"), 25);
  EXPECT_LE(calls(server, "unlink"), calls(server, "scan"));
}

// On a cluster the keys of a command share their slot.
TEST(Sweep, RemovesASlotsKeysAtOnce) {
  servers::RedisCluster cluster;
  long keys = 0;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    // Only what this node has: 60 hash tags have a slot there, of 30 keys each.
    auto client = cluster.node(i).client();
    for (int tag = 0, found = 0; found < 60; ++tag) {
      const std::string script = "for k = 1, 30 do redis.call('SET', KEYS[1] .. k, 1) end";
      const std::string front = "sluice:{" + std::to_string(tag) + "}:";
      if (client.ask({"EVAL", script, "1", front}).is_error()) continue;
      ++found;
      keys += 30;
    }
  }
  RedisOptions options = virtual_options({cluster.node(0).port()});
  options.topology = Topology::kCluster;
  const auto check = [](Limited& limited) {
    for (int i = 0; i < 100; ++i) limited.check(std::to_string(i));
  };
  EXPECT_EQ(left_after(options, check), "");
  long unlinks = 0;
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(cluster.node(i).command({"DBSIZE"}), "0");
    unlinks += calls(cluster.node(i), "unlink");
  }
  EXPECT_LT(unlinks, keys / 5);
}

// It takes longer than a server may be silent.
TEST(Sweep, IsPatientWhileThereAreAnswers) {
  const RedisServer server;
  servers::FaultProxy proxy(server.port());
  RedisOptions options = virtual_options({proxy.port()});
  options.deadline = 1s;
  Swept swept(options);
  servers::await("its connection", [&] {
    return server.command({"CLIENT", "LIST"}).find("name=sluice") != std::string::npos;
  });
  servers::await("its handshake", [&] {
    fill(server, 1);
    return swept.sweep().empty() && server.command({"DBSIZE"}) == "0";
  });
  fill(server, 5'000);
  proxy.delay_replies(500ms);
  const auto began = RemoteWorker::Clock::now();
  EXPECT_EQ(swept.sweep(), "");
  EXPECT_GT(RemoteWorker::Clock::now() - began, 2 * options.deadline);
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(Sweep, SaysWhatAServerHasNotLetItRemove) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "kept", "on", ">pass", "~*", "&*", "+@all", "-unlink"});
  RedisOptions options = virtual_options({server.port()});
  options.user = "kept";
  options.password = "pass";
  const auto check = [](Limited& limited) {
    for (const char* key : {"a", "b", "c"}) limited.check(key);
  };
  EXPECT_THAT(left_after(options, check),
              testing::StartsWith("of the keys that begin with 'sluice:' 0 were removed, and 3 are "
                                  "left, to expire after a day: redis 127.0.0.1:" +
                                  std::to_string(server.port()) + ": NOPERM"));
  EXPECT_EQ(server.command({"DBSIZE"}), "3");
}

TEST(Sweep, SaysThatAServerIsSilent) {
  RedisServer server;
  RedisOptions options = virtual_options({server.port()});
  options.deadline = 200ms;
  Swept swept(options);
  servers::await("its handshake", [&] {
    fill(server, 1);
    return swept.sweep().empty() && server.command({"DBSIZE"}) == "0";
  });
  server.pause();
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  EXPECT_EQ(
      swept.sweep(),
      "of the keys that begin with 'sluice:' 0 were removed, and others may be left, to expire "
      "after a day: redis " +
          address + ": " + address + " has not answered for 400 ms");
  server.resume();
}

TEST(Sweep, SaysThatAServerIsGone) {
  RedisServer server;
  const std::uint16_t port = server.port();
  const std::string left = left_after(virtual_options({port}), [&](Limited& limited) {
    limited.check("k");
    server.kill();
  });
  EXPECT_THAT(left, testing::HasSubstr("others may be left, to expire after a day: "));
  EXPECT_THAT(left, testing::HasSubstr("redis 127.0.0.1:" + std::to_string(port)));
}

// Nothing was written where no server was ever reached.
TEST(Sweep, SaysNothingOfAServerThatNeverAnswered) {
  RedisServer server;
  server.stop();
  const auto check = [](Limited& limited) { EXPECT_THROW(limited.check("k"), StoreError); };
  EXPECT_EQ(left_after(virtual_options({server.port()}), check), "");
}

}  // namespace
}  // namespace sluice::redis

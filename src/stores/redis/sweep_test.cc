// The keys of a replay, which are removed at its end.

#include <gmock/gmock.h>

#include <string>

#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/redis_cluster.h"
#include "stores/redis/redis_router.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

RedisOptions virtual_options(std::uint16_t port) {
  return {.servers = {{.host = "127.0.0.1", .port = port}}, .deadline = 5s, .virtual_time = true};
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

  // Returns how long it took.
  RemoteWorker::Clock::duration sweep(std::chrono::milliseconds most = 1h) {
    const auto began = RemoteWorker::Clock::now();
    redis::sweep(worker_, *router_, "sluice:", most);
    return RemoteWorker::Clock::now() - began;
  }

  void await_handshake(const RedisServer& server) {
    servers::await("its handshake", [&] {
      fill(server, 1);
      sweep();
      return server.command({"DBSIZE"}) == "0";
    });
  }

 private:
  const RedisOptions options_;
  RemoteWorker worker_;
  std::unique_ptr<RedisRouter> router_;
};

TEST(Sweep, RemovesAPageOfKeysAtOnce) {
  const RedisServer server;
  server.command({"SET", "other", "x"});
  fill(server, 20'000);
  Limited(virtual_options(server.port()), "fixed_window 5/1s").check("k");
  EXPECT_EQ(server.command({"DBSIZE"}), "1");
  // SCAN may give a few more than it was asked for, and nothing on its last page.
  EXPECT_LE(calls(server, "scan"), 25);
  EXPECT_LE(calls(server, "unlink"), calls(server, "scan"));
}

// On a cluster the keys of a command share their slot.
TEST(Sweep, RemovesTheKeysOfEachNode) {
  servers::RedisCluster cluster;
  RedisOptions options = virtual_options(cluster.node(0).port());
  options.topology = Topology::kCluster;
  {
    Limited limited(options, "fixed_window 5/1s");
    for (int i = 0; i < 100; ++i) limited.check(std::to_string(i));
    for (std::size_t i = 0; i < cluster.size(); ++i) {
      EXPECT_NE(cluster.node(i).command({"DBSIZE"}), "0");
    }
  }
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(cluster.node(i).command({"DBSIZE"}), "0");
  }
}

// It takes longer than a server may be silent.
TEST(Sweep, IsPatientWhileThereAreAnswers) {
  const RedisServer server;
  servers::FaultProxy proxy(server.port());
  RedisOptions options = virtual_options(proxy.port());
  options.deadline = 1s;
  Swept swept(options);
  swept.await_handshake(server);
  fill(server, 5'000);
  proxy.delay_replies(500ms);
  EXPECT_GT(swept.sweep(), 2 * options.deadline);
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(Sweep, AsksForNoPageOnceItsTimeIsOver) {
  const RedisServer server;
  Swept swept(virtual_options(server.port()));
  swept.await_handshake(server);
  fill(server, 5'000);
  const long pages = calls(server, "scan");
  swept.sweep(0ms);
  EXPECT_EQ(calls(server, "scan"), pages + 1);
}

TEST(Sweep, EndsWhereAServerIsSilent) {
  RedisServer server;
  RedisOptions options = virtual_options(server.port());
  options.deadline = 200ms;
  Swept swept(options);
  swept.await_handshake(server);
  fill(server, 1);
  server.pause();
  EXPECT_GT(swept.sweep(), options.deadline / 2);
  server.resume();
  EXPECT_EQ(server.command({"DBSIZE"}), "1");
}

TEST(Sweep, EndsAtOnceWhereAServerIsGone) {
  RedisServer server;
  const RedisOptions options = virtual_options(server.port());
  Swept swept(options);
  swept.await_handshake(server);
  server.kill();
  EXPECT_LT(swept.sweep(), options.deadline);
}

TEST(Sweep, EndsWhereNoServerHasEverAnswered) {
  RedisServer server;
  server.kill();
  Limited limited(virtual_options(server.port()), "fixed_window 5/1s");
  EXPECT_THROW(limited.check("k"), StoreError);
}

}  // namespace
}  // namespace sluice::redis

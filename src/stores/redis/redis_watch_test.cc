// A watch is called when a permit is released; with real servers.

#include <gmock/gmock.h>

#include <atomic>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "net/tls_client.h"
#include "servers/await.h"
#include "servers/certificates.h"
#include "servers/redis_cluster.h"
#include "servers/redis_sentinel.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

// One permit a key, in a store of its own.
class Permits : public Limited {
 public:
  explicit Permits(const RedisOptions& options, const std::string& expression = "concurrency 1")
      : Limited(options, expression) {}

  bool ask(std::string_view key, Operation operation, PermitId permit) {
    Request asked = request(key);
    asked.operation = operation;
    asked.permit = permit;
    return decide(asked).allowed;
  }
  bool acquire(std::string_view key, PermitId permit) { return ask(key, Operation::kTake, permit); }
  bool release(std::string_view key, PermitId permit) {
    return ask(key, Operation::kRelease, permit);
  }
  Watch watch(std::string_view key, std::function<void()> released) {
    return store().watch(space(), key, std::move(released));
  }
};

// Counts its calls, and waits for them.
class Bell {
 public:
  std::function<void()> ring() {
    return [this] { rung_.release(); };
  }
  bool await(std::chrono::milliseconds patience = 30s) { return rung_.try_acquire_for(patience); }

 private:
  std::counting_semaphore<> rung_{0};
};

// The watch is called for a permit that another store releases.
void expect_notice(Permits& there, Bell& bell, PermitId permit) {
  EXPECT_TRUE(there.acquire("k", permit));
  EXPECT_TRUE(there.release("k", permit));
  EXPECT_TRUE(bell.await());
}

std::string subscribers_of(const RedisServer& server) {
  return server.command({"PUBSUB", "NUMSUB", "sluice:test:{k}"});
}

TEST(RedisWatch, IsToldOnlyWhereAllWereHeld) {
  const RedisServer server;
  Permits permits(options_for(server), "concurrency 2");
  Bell bell;
  const auto watch = permits.watch("k", bell.ring());
  ASSERT_TRUE(bell.await());
  EXPECT_TRUE(permits.acquire("k", 1));
  EXPECT_TRUE(permits.release("k", 1));
  EXPECT_TRUE(permits.acquire("k", 2));
  EXPECT_TRUE(permits.acquire("k", 3));
  EXPECT_FALSE(permits.release("k", 4));
  EXPECT_TRUE(permits.release("k", 2));
  ASSERT_TRUE(bell.await());
  EXPECT_TRUE(permits.release("k", 3));
  // Another key's message comes after all that this one's could have been.
  Bell other;
  const auto other_watch = permits.watch("other", other.ring());
  ASSERT_TRUE(other.await());
  EXPECT_FALSE(bell.await(0ms));
}

TEST(RedisWatch, AsksAgainOnceItIsHeardAgain) {
  const RedisServer server;
  Permits here(options_for(server));
  Permits there(options_for(server));
  Bell bell;
  const auto watch = here.watch("k", bell.ring());
  ASSERT_TRUE(bell.await());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(server.command({"CLIENT", "KILL", "TYPE", "pubsub"}), "1");
    ASSERT_TRUE(bell.await()) << "it is watched again";
    expect_notice(there, bell, 1);
  }
}

TEST(RedisWatch, AKeyIsSubscribedToAsLongAsItIsWatched) {
  const RedisServer server;
  Permits permits(options_for(server));
  // The store's, when it has connected, and this one.
  servers::await("both", [&] { return server.info("connected_clients") == "2"; });
  Bell bell;
  auto one = permits.watch("k", bell.ring());
  ASSERT_TRUE(bell.await());
  Bell second;
  auto two = permits.watch("k", second.ring());
  EXPECT_TRUE(second.await()) << "what is watched already is heard at once";
  EXPECT_EQ(server.info("connected_clients"), "3");
  one.reset();
  const auto other = permits.watch("other", bell.ring());
  ASSERT_TRUE(bell.await());
  EXPECT_THAT(subscribers_of(server), testing::EndsWith("1"));
  two.reset();
  const auto last = permits.watch("last", bell.ring());
  ASSERT_TRUE(bell.await());
  servers::await("the key to be let go", [&] { return subscribers_of(server).ends_with('0'); });
}

TEST(RedisWatch, OneMayEndAndAnotherBeginWhileItIsCalled) {
  const RedisServer server;
  Permits permits(options_for(server));
  Bell bell;
  std::atomic<int> calls = 0;
  Watch watch;
  std::binary_semaphore is_set{0};
  watch = permits.watch("k", [&] {
    is_set.acquire();
    ++calls;
    watch = permits.watch("k", bell.ring());
  });
  is_set.release();
  EXPECT_TRUE(bell.await());
  Permits there(options_for(server));
  expect_notice(there, bell, 1);
  EXPECT_EQ(calls, 1);
}

TEST(RedisWatch, IsNotCalledOnceItIsGone) {
  const RedisServer server;
  Permits permits(options_for(server));
  std::binary_semaphore began{0};
  std::binary_semaphore go_on{0};
  std::atomic<bool> gone = false;
  std::atomic<bool> ended = false;
  auto watch = permits.watch("k", [&] {
    began.release();
    go_on.acquire();
    ended = !gone;
  });
  began.acquire();
  std::thread leaver([&] {
    watch.reset();
    gone = true;
  });
  go_on.release();
  leaver.join();
  EXPECT_TRUE(ended);
}

// Whether a server is told of them or not.
TEST(RedisWatch, WatchesAreBounded) {
  RedisOptions options{.servers = {{.host = "127.0.0.1", .port = 1}}};
  Permits permits(options);
  constexpr std::size_t kBeside =
      Subscriber::kBytesBeside + std::string_view("sluice:test:{}").size();
  const std::string longest(Subscriber::kMaxBytes - kBeside, 'x');
  EXPECT_EQ(permits.watch(longest + 'x', [] {}), nullptr);
  auto one = permits.watch(longest, [] {});
  ASSERT_NE(one, nullptr);
  EXPECT_EQ(permits.watch("", [] {}), nullptr);
  one.reset();
  const auto watch = [&] { return permits.watch("k", [] {}); };
  servers::await("the place of the first", [&] { return (one = watch()) != nullptr; });
  std::vector<Watch> many;
  while (many.size() < Subscriber::kMaxBytes / (kBeside + 1) - 1) {
    many.push_back(watch());
    ASSERT_NE(many.back(), nullptr) << many.size();
  }
  EXPECT_EQ(watch(), nullptr);
  many.pop_back();
  servers::await("the place of the last", [&] { return watch() != nullptr; });
}

TEST(RedisWatch, OutlivesItsStore) {
  const RedisServer server;
  Bell bell;
  Watch watch;
  {
    Permits permits(options_for(server));
    watch = permits.watch("k", bell.ring());
    ASSERT_TRUE(bell.await());
  }
  watch.reset();
  EXPECT_EQ(server.info("connected_clients"), "1");
}

TEST(RedisWatch, WaitsForAServerThatIsNotThereYet) {
  RedisServer server;
  Permits permits(options_for(server));
  server.kill();
  Bell bell;
  const auto watch = permits.watch("k", bell.ring());
  EXPECT_FALSE(bell.await(50ms));
  server.restart();
  EXPECT_TRUE(bell.await());
}

TEST(RedisWatch, AUserWhoMayNotPublishReleasesAllTheSame) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "quiet", "on", ">pw", "~*", "+@all", "resetchannels"});
  RedisOptions options = options_for(server);
  options.user = "quiet";
  options.password = "pw";
  Permits permits(options);
  Bell bell;
  const auto watch = permits.watch("k", bell.ring());
  EXPECT_TRUE(permits.acquire("k", 1));
  EXPECT_TRUE(permits.release("k", 1));
  EXPECT_TRUE(permits.acquire("k", 2));
  EXPECT_FALSE(bell.await(0ms));
}

// Through TLS, and with a password.
TEST(RedisWatch, HearsOfAllKeysOfACluster) {
  servers::RedisCluster cluster({.password = "open-sesame", .tls = true});
  // Each store has its own TlsContext, as those that are opened by a URL.
  const auto options = [&] {
    RedisOptions made = options_for(cluster.node(0), 5s, Topology::kCluster);
    made.password = "open-sesame";
    made.servers[0].tls =
        std::make_shared<TlsContext>(TlsOptions{.ca_file = servers::certificates().ca});
    return made;
  };
  Permits here(options());
  Permits there(options());
  for (const char* key : {"a", "b", "c", "d", "e", "f"}) {
    Bell bell;
    const auto watch = here.watch(key, bell.ring());
    ASSERT_TRUE(bell.await());
    EXPECT_TRUE(there.acquire(key, 1));
    EXPECT_TRUE(there.release(key, 1));
    EXPECT_TRUE(bell.await()) << key;
  }
}

TEST(RedisWatch, FollowsThePrimary) {
  servers::RedisSentinel fleet({.lost_after = 500ms});
  RedisOptions options{.topology = Topology::kSentinel,
                       .servers = {},
                       .primary_name = servers::RedisSentinel::kMasterName,
                       .deadline = 5s};
  for (std::size_t i = 0; i < servers::RedisSentinel::kSentinels; ++i) {
    options.servers.push_back({.host = "127.0.0.1", .port = fleet.sentinel(i).port()});
  }
  Permits permits(options);
  Bell bell;
  const auto watch = permits.watch("k", bell.ring());
  ASSERT_TRUE(bell.await());
  expect_notice(permits, bell, 1);
  fleet.first_primary().kill();
  fleet.await_primary(fleet.first_replica().port());
  ASSERT_TRUE(bell.await()) << "it is watched at the new one";
  expect_notice(permits, bell, 2);
}

}  // namespace
}  // namespace sluice::redis

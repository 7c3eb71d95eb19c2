// What callers see of the library on real servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "servers/memcached_server.h"
#include "servers/redis_server.h"
#include "sluice/sluice.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(Claims, AreAcquiredTogetherOnRedis) {
  const servers::RedisServer server;
  const auto store = open_store(server.url() + "?deadline=5s");
  Limiter host(store, Limit("fixed_window 1/50ms anchor=first", "host"));
  Limiter total(store, Limit("fixed_window 1/100ms anchor=first", "total"));
  const auto began = steady_clock::now();
  acquire_all({{host, "a"}, {total, ""}});
  EXPECT_TRUE(acquire_all({{host, "b"}, {total, ""}}).allowed);
  EXPECT_GE(steady_clock::now() - began, 99ms);

  Limiter bucket(store, Limit("token_bucket 1/1h", "bucket"));
  Limiter week(store, Limit("sliding_log 5/1w", "week"));
  bucket.check("");
  auto reserved = reserve_all({{week, ""}, {bucket, ""}});
  EXPECT_GT(reserved.at(0).delay(), 59min);
  EXPECT_FALSE(reserve_all({{week, ""}, {bucket, ""}}, 1min).at(1));
  for (Reservation& one : reserved) one.cancel();
  std::vector<Decision> parts(2);
  EXPECT_EQ(check_all({{week, ""}, {bucket, ""}}, parts).binding, 1);
  EXPECT_EQ(parts[0].remaining, 5);
  EXPECT_LE(parts[1].retry_after, 1h);
}

TEST(Claims, AreRefusedWithTheReasonOnMemcached) {
  const servers::MemcachedServer server;
  const auto store = open_store(server.url() + "?deadline=5s");
  Limiter host(store, Limit("sliding_log 5/1w", "host"));
  Limiter total(store, Limit("sliding_log 9/1w", "total"));
  const auto reason = [&](const auto& take) {
    return error_of<std::invalid_argument>([&] {
      take(std::vector<Claim>{{host, "a"}, {total, ""}});
    });
  };
  const auto says_why = testing::HasSubstr("on Memcached only one limit and key");
  EXPECT_THAT(reason([](const auto& claims) { acquire_all(claims); }), says_why);
  EXPECT_THAT(reason([](const auto& claims) { reserve_all(claims); }), says_why);
  EXPECT_EQ(acquire_all({{host, "a"}}).remaining, 4);
  EXPECT_EQ(reserve_all({{host, "a"}}).at(0).decision().remaining, 3);
}

// By the former limit, the key's value on the server would be of no known kind, and so replaced.
TEST(Reservation, LeavesWhatCountsUnderALimitOfAnotherKind) {
  const servers::RedisServer redis;
  const servers::MemcachedServer memcached;
  for (const std::string& url : {redis.url(), memcached.url()}) {
    Limiter limiter(open_store(url + "?deadline=5s"), Limit("token_bucket 10/1w", "budget"));
    Reservation exceeded = limiter.reserve("a", 4);
    Reservation returned = limiter.reserve("a", 4);
    Reservation forgotten = limiter.reserve("a", 2);
    limiter.set_limit(Limit("sliding_log 7/1w", "budget"));
    limiter.check("a", 3);
    EXPECT_EQ(exceeded.commit(6).remaining, 2) << url;
    returned.cancel();
    EXPECT_EQ(limiter.peek("a").remaining, 2) << url;
    limiter.set_limit(Limit("token_bucket 10/1w", "budget"));
    limiter.check("a", 3);
    forgotten.cancel();
    EXPECT_EQ(limiter.peek("a").remaining, 7) << url;
  }
}

// Besides the admissions, one call for each retry_after. A request that arrives when the denial
// ends by this process's clock may be early by the store's clock; the store then denies it for the
// rest.
TEST(HotKey, CostsRedisOneCallForEachRetryAfter) {
  const servers::RedisServer server;
  Limiter limiter(open_store(server.url() + "?deadline=5s"), Limit("token_bucket 1/200ms"));
  int asked = 0;
  int admitted = 0;
  int denied_by_store = 0;
  steady_clock::time_point denied_until;
  while (admitted < 5) {
    const auto before = steady_clock::now();
    const Decision decision = limiter.check("hot");
    ++asked;
    if (decision.source == Source::kCache) continue;
    ASSERT_EQ(decision.source, Source::kStore);
    // The process's clock may be a tick of the system behind.
    ASSERT_GE(steady_clock::now() + 10ms, denied_until) << asked;
    if (decision.allowed) {
      ++admitted;
    } else {
      ++denied_by_store;
      denied_until = before + decision.retry_after;
    }
  }
  const std::string scripts = server.info("cmdstat_evalsha");
  const int with_handshake = admitted + denied_by_store + 1;
  EXPECT_TRUE(scripts.starts_with("calls=" + std::to_string(with_handshake) + ",")) << scripts;
  EXPECT_GT(denied_by_store, 0);
  EXPECT_GT(asked, admitted + denied_by_store);
}

TEST(StoreEnd, PendingCallsCompleteOnTheThreadThatLetsGoOfTheStore) {
  servers::RedisServer server;
  auto store = open_store(server.url() + "?deadline=1m");
  std::optional<Limiter> limiter = Limiter(store, Limit("fixed_window 5/1d"));
  EXPECT_EQ(limiter->check("key").source, Source::kStore);
  server.pause();
  std::optional<std::thread::id> ran_on;
  limiter->async_check("key", 1, [&](const Decision& decision, const std::exception_ptr&) {
    EXPECT_EQ(decision.source, Source::kLocal);
    ran_on = std::this_thread::get_id();
  });
  store.reset();
  EXPECT_FALSE(ran_on) << "the limiter has a share of it";
  limiter.reset();
  EXPECT_EQ(ran_on, std::this_thread::get_id());
}

}  // namespace
}  // namespace sluice

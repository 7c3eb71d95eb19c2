// check_all() and its relatives on real servers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>
#include <string>
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

}  // namespace
}  // namespace sluice

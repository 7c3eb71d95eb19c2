// Servers, sentinels and clusters with TLS on all ports and a password.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "servers/certificates.h"
#include "servers/redis_cluster.h"
#include "servers/redis_sentinel.h"
#include "servers/redis_server.h"
#include "sluice/sluice.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

constexpr const char* kPassword = "open-sesame";

/// If the store does not answer, the limiter throws, with the reason.
Limiter limiter_on(const std::string& fleet) {
  const std::string ca = servers::certificates().ca;
  return Limiter(open_store(fleet + "&ca=" + ca + "&deadline=5s&on_failure=raise"),
                 Limit("sliding_log 5/1w", "secure"));
}

TEST(SecureFleet, ASingleServerHasTwoSchemes) {
  const servers::RedisServer server({.password = kPassword, .tls = true});
  const std::string rest = server.url().substr(server.url().find(':'));
  EXPECT_EQ(limiter_on("rediss" + rest + "?connections=1").check("k").remaining, 4);
  EXPECT_EQ(limiter_on("valkeys" + rest + "?connections=1").check("k").remaining, 3);
}

// The password is for the primary and the replica.
TEST(SecureFleet, SentinelsNameAPrimary) {
  servers::RedisSentinel fleet({.password = kPassword, .tls = true});
  Limiter limiter = limiter_on(fleet.url());
  EXPECT_EQ(limiter.check("k").remaining, 4);
  EXPECT_EQ(fleet.first_primary().command({"EXISTS", "sluice:secure:{k}"}), "1");
}

// The servers' password is not sent to a sentinel, so one that asks for a password names no master.
TEST(SecureFleet, SentinelsThatNeedAPasswordAreNotUsed) {
  const servers::RedisServer sentinel({.config = {"sentinel monitor mymaster 127.0.0.1 1 1"},
                                       .password = kPassword,
                                       .tls = true,
                                       .sentinel = true});
  Limiter limiter =
      limiter_on("redis+sentinel://default:" + std::string(kPassword) +
                 "@127.0.0.1:" + std::to_string(sentinel.port()) + "/mymaster?tls=yes");
  EXPECT_THAT(error_of([&] { limiter.check("k"); }), testing::HasSubstr("NOAUTH"));
}

// Each node is reached over TLS: the one in the URL, those in the slot map, and one that only a
// redirection names.
TEST(SecureFleet, AClusterRedirects) {
  servers::RedisCluster cluster({.spare = true, .password = kPassword, .tls = true});
  const std::string url = cluster.url();
  Limiter limiter = limiter_on(url.substr(0, url.find(',')) + "?tls=yes");
  for (const std::string key : {"a", "b", "c"}) {  // One on each primary.
    EXPECT_EQ(limiter.check(key).remaining, 4) << key;
  }
  const std::size_t spare = cluster.size() - 1;
  cluster.move_slot({.slot = cluster.slot_of("{a}"), .to = spare});
  EXPECT_EQ(limiter.check("a").remaining, 3);
  EXPECT_NE(cluster.node(spare).info("cmdstat_evalsha"), "");
}

}  // namespace
}  // namespace sluice

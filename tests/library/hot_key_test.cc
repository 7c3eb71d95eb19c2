// How many calls to Redis a denied key costs if many callers ask for it.

#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "servers/redis_server.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

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
  EXPECT_TRUE(scripts.starts_with("calls=" + std::to_string(admitted + denied_by_store) + ","))
      << scripts;
  EXPECT_GT(denied_by_store, 0);
  EXPECT_GT(asked, admitted + denied_by_store);
}

}  // namespace
}  // namespace sluice

// The clock of a process that decides by it is behind.

#include <gtest/gtest.h>

#include <cstdio>
#include <random>
#include <string>

#include "core/instant.h"
#include "servers/memcached_server.h"
#include "sluice/limit.h"
#include "stores/stores.h"

namespace sluice::faults {
namespace {

// For twenty seconds, ten processes ask for a key, each 20 times a second at random, and so does
// another process, whose clock is behind. Returns how many requests of that process are admitted,
// divided by how many of each other process.
double share_of_late(Store& store, const std::string& expression, std::int64_t lag_ns) {
  constexpr int kOnTime = 10;
  const std::string name = expression.substr(0, expression.find(' '));
  const Limit limit(expression, name + "-" + std::to_string(lag_ns));
  const auto space = store.open_space(limit.definition());
  const Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
  std::mt19937_64 random(7);
  Instant real = 1'700'000'000 * kSecondNs;
  int of_late = 0;
  int of_others = 0;
  for (int i = 0; i < 20 * 20 * (kOnTime + 1); ++i) {
    real += static_cast<std::int64_t>(random() % (2 * kSecondNs / (20 * (kOnTime + 1))));
    const bool is_late = random() % (kOnTime + 1) == 0;
    const Decision decision = store.decide_one(request, is_late ? real - lag_ns : real);
    if (decision.allowed) ++(is_late ? of_late : of_others);
  }
  const double share = static_cast<double>(of_late) * kOnTime / of_others;
  std::printf("%-28s late by %4lld ms: %3.0f %%\n", expression.c_str(),
              static_cast<long long>(lag_ns / kMillisecondNs), 100 * share);
  return share;
}

TEST(Clock, ThatIsLateGetsLessOfABucketAndItsShareOfAWindow) {
  const servers::MemcachedServer server;
  const auto store = open_bare_store(server.url() + "?deadline=10s");
  const auto share = [&](const char* expression, std::int64_t lag_ms) {
    return share_of_late(*store, expression, lag_ms * kMillisecondNs);
  };
  // The processes ask for twice as much as these limits admit.
  for (const char* busy : {"token_bucket 110/1s", "sliding_counter 110/1s"}) {
    EXPECT_GT(share(busy, 0), 0.8);
    EXPECT_LT(share(busy, 5), 0.6);
    EXPECT_LT(share(busy, 20), 0.25);
  }
  EXPECT_LT(share("token_bucket 110/1s", 2000), 0.01);
  EXPECT_LT(share("sliding_counter 110/1s", 2000), 0.25);
  EXPECT_GT(share("sliding_log 110/1s", 2000), 0.4);
  EXPECT_GT(share("fixed_window 110/1s", 2000), 0.8);
  EXPECT_GT(share("sliding_window 110/1s", 2000), 0.8);
  // The processes ask for half as much as this limit admits: only the time to fill the bucket
  // matters.
  EXPECT_GT(share("leaky_bucket 440/1s queue=439", 500), 0.8);
  EXPECT_LT(share("leaky_bucket 440/1s queue=439", 2000), 0.01);
}

}  // namespace
}  // namespace sluice::faults

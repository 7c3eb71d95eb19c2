#include "stores/memcached/server_ring.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace sluice::memcached {
namespace {

constexpr int kKeys = 20'000;

std::vector<Endpoint> servers(std::size_t count) {
  std::vector<Endpoint> all;
  for (std::size_t i = 0; i < count; ++i) {
    all.push_back({.host = "cache" + std::to_string(i), .port = 11211});
  }
  return all;
}

std::string key(int number) {
  return "sluice:login:user" + std::to_string(number);
}

TEST(ServerRing, AServerThatIsAddedTakesItsShareAndMovesNothingElse) {
  for (std::size_t before = 1; before <= 5; ++before) {
    const ServerRing few(servers(before));
    const ServerRing more(servers(before + 1));
    int moved = 0;
    for (int i = 0; i < kKeys; ++i) {
      if (few.server_of(key(i)) == more.server_of(key(i))) continue;
      EXPECT_EQ(more.server_of(key(i)), before);
      ++moved;
    }
    EXPECT_NEAR(moved, 1.0 * kKeys / static_cast<int>(before + 1), kKeys / 40.0);
  }
}

TEST(ServerRing, DoesNotDependOnTheOrderOfServers) {
  auto all = servers(3);
  const ServerRing forwards(all);
  std::ranges::reverse(all);
  const ServerRing backwards(all);
  for (int i = 0; i < 1'000; ++i) {
    EXPECT_EQ(forwards.server_of(key(i)), 2 - backwards.server_of(key(i)));
  }
}

}  // namespace
}  // namespace sluice::memcached

// The store on clusters whose map is not, or not yet, what it should be.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/redis_cluster.h"
#include "stores/redis/limited_test.h"

namespace sluice::redis {
namespace {

RedisOptions options_for_node(const RedisServer& node, std::chrono::nanoseconds deadline) {
  RedisOptions options{.topology = Topology::kCluster, .servers = {}, .deadline = deadline};
  options.servers = {{.host = "127.0.0.1", .port = node.port()}};
  return options;
}

TEST(RedisStoreOnACluster, FindsItsSlotsWhereverItBegins) {
  servers::RedisCluster cluster;
  Limited limited(options_for_node(cluster.node(2), 5s), "fixed_window 2/24h");
  std::vector<std::string> keys;
  for (int i = 0; i < 300; ++i) keys.push_back("key" + std::to_string(i % 100));
  const Crowd crowd(limited, keys);
  EXPECT_EQ(crowd.admitted(), 200);
  EXPECT_EQ(crowd.unanswered(), 0);

  // A key that no call can carry fails alone, and at once.
  const std::string huge(2 << 20, 'x');
  EXPECT_THAT(sources(limited, {limited.request(huge), limited.request("key0", 0)}),
              testing::ElementsAre(Source::kUnanswered, Source::kStore));
}

TEST(RedisStoreOnACluster, JudgesEachKeyOfASlotThatMoves) {
  servers::RedisCluster cluster;
  Limited limited(options_for_node(cluster.node(0), 5s), "fixed_window 9/24h");
  const Limit other("fixed_window 5/24h", "other");
  const auto space = limited.store().open_space(other.definition());
  Request fresh{.limit = &other.definition(), .space = space.get(), .key = "k"};
  limited.check("k");
  const int slot = cluster.slot_of("sluice:test:{k}");
  const std::size_t to = (cluster.owner_of(slot) + 1) % cluster.size();
  cluster.begin_move({.slot = slot, .to = to});
  // One has a state, which stays where it is; the other has none, and begins where the slot goes.
  const std::vector<Request> requests{limited.request("k"), fresh};
  std::vector<Decision> decisions(2);
  limited.store().decide(requests, kStoreTime, decisions);
  EXPECT_EQ(decisions[0].remaining, 7);
  EXPECT_EQ(decisions[1].remaining, 4);
  cluster.move_keys({.slot = slot, .to = to}, 10);
  cluster.end_move({.slot = slot, .to = to});
  limited.store().decide(requests, kStoreTime, decisions);
  EXPECT_EQ(decisions[0].remaining, 6);
  EXPECT_EQ(decisions[1].remaining, 3);
}

TEST(RedisStoreOnACluster, ComesToLifeWithTheClustersSlots) {
  const RedisServer node({.config = {"cluster-enabled yes"}});
  Limited limited(options_for_node(node, 50ms), "fixed_window 1000000/24h");
  EXPECT_THROW(limited.check("k"), StoreError);
  const auto answers = [&] {
    try {
      return limited.check("k").source == Source::kStore;
    } catch (const StoreError&) {
      return false;
    }
  };
  // First some of the slots, without the key's, then all.
  ASSERT_EQ(node.command({"CLUSTER", "ADDSLOTSRANGE", "0", "1"}), "OK");
  EXPECT_THROW(limited.check("k"), StoreError);
  ASSERT_EQ(node.command({"CLUSTER", "ADDSLOTSRANGE", "2", "16383"}), "OK");
  servers::await("a decision of the cluster", answers);
}

}  // namespace
}  // namespace sluice::redis

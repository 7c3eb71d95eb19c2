// Several servers; one is lost, or its keys move to another.

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/redis_cluster.h"
#include "servers/redis_sentinel.h"

namespace sluice::faults {
namespace {

using servers::RedisCluster;
using servers::RedisSentinel;

// Writes that the primary has not sent to its replica are lost, so a key may be admitted its limit
// once more, at most.
TEST(Fleet, LosesItsPrimaryUnderSentinel) {
  const Fault fault{.name = "primary killed, its replica promoted by sentinels",
                    .bound = Bound{.by_store = 2, .in_all = 2},
                    .known_after = 200ms};
  expect_whole(fault, [] {
    RedisSentinel fleet({.lost_after = 500ms});
    const std::uint16_t heir = fleet.first_replica().port();
    Load load(fleet.url());
    return through(load, [&] {
      fleet.first_primary().kill();
      load.state_is_lost();
      fleet.await_primary(heir);
    });
  });
}

// The old primary is still running. Until sentinels make it follow the new one (READONLY), it gets
// requests, and all its writes are lost.
TEST(Fleet, ChangesItsPrimaryUnderSentinel) {
  const Fault fault{.name = "failover ordered, the old primary goes on as a replica",
                    .bound = Bound{.by_store = 2, .in_all = 2}};
  expect_whole(fault, [] {
    RedisSentinel fleet;
    const std::uint16_t heir = fleet.first_replica().port();
    Load load(fleet.url());
    return through(load, [&] {
      load.begin_losing();
      fleet.begin_failover();
      fleet.await_primary(heir);
      servers::await("the old primary to follow the new one", [&] {
        try {
          return fleet.first_primary().info("role") == "slave";
        } catch (const std::runtime_error&) {
          return false;  // The sentinels close all its connections when they reconfigure it.
        }
      });
      load.end_losing();
    });
  });
}

// The other nodes still get requests.
TEST(Fleet, LosesANodeOfACluster) {
  const Fault fault{.name = "a cluster's node killed, its replica takes over",
                    .bound = Bound{.by_store = 2, .in_all = 2}};
  expect_whole(fault, [] {
    RedisCluster cluster({.replicas = true, .lost_after = 1s});
    const int slot = cluster.slot_of(Load::keys().front());
    const std::size_t lost = cluster.owner_of(slot);
    Load load(cluster.url());
    return through(load, [&] {
      cluster.node(lost).kill();
      load.state_is_lost();
      cluster.await_owner({.slot = slot, .to = lost + 3});
    });
  });
}

// The store follows ASK, MOVED and TRYAGAIN: callers notice nothing, and no unit is admitted twice.
TEST(Fleet, MovesSlotsWhileTheirKeysAreAsked) {
  expect_whole({.name = "slots moved one by one", .never_given_up = true, .unnoticed = true}, [] {
    RedisCluster cluster;
    std::set<int> slots;
    for (const std::string& key : Load::keys()) slots.insert(cluster.slot_of(key));
    Load load(cluster.url());
    return through(load, [&] {
      for (const int slot : slots) {
        const RedisCluster::SlotMove move{.slot = slot, .to = (cluster.owner_of(slot) + 1) % 3};
        cluster.begin_move(move);
        run(5ms);
        while (cluster.move_keys(move, 1) > 0) run(5ms);
        cluster.end_move(move);
      }
    });
  });
}

}  // namespace
}  // namespace sluice::faults

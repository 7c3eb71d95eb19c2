#include "servers/redis_cluster.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::servers {
namespace {

/// The first word of an error.
std::string code(const Reply& reply) {
  return reply.text.substr(0, reply.text.find(' '));
}

TEST(RedisCluster, AnswersMovedForTheSlotsOfOthers) {
  RedisCluster cluster;
  const int slot = cluster.slot_of("k");
  const std::size_t owner = cluster.owner_of(slot);
  const std::size_t other = (owner + 1) % cluster.size();
  EXPECT_EQ(cluster.node(owner).command({"SET", "k", "v"}), "OK");
  EXPECT_EQ(cluster.node(other).command({"GET", "k"}),
            "-MOVED " + std::to_string(slot) +
                " 127.0.0.1:" + std::to_string(cluster.node(owner).port()));
}

TEST(RedisCluster, MovesASlotStepByStep) {
  RedisCluster cluster;
  const int slot = cluster.slot_of("{k}");
  const std::size_t owner = cluster.owner_of(slot);
  const RedisCluster::SlotMove move{slot, (owner + 1) % cluster.size()};
  RespClient from = cluster.node(owner).client();
  from.ask({"MSET", "{k}1", "one", "{k}2", "two"});

  cluster.begin_move(move);
  EXPECT_EQ(from.ask({"GET", "{k}1"}).text, "one");
  EXPECT_EQ(code(from.ask({"GET", "{k}3"})), "ASK");
  EXPECT_EQ(cluster.move_keys(move, 1), 1U);
  EXPECT_EQ(code(from.ask({"MGET", "{k}1", "{k}2"})), "TRYAGAIN");
  EXPECT_EQ(cluster.move_keys(move, 1), 1U);
  EXPECT_EQ(cluster.move_keys(move, 1), 0U);
  EXPECT_EQ(code(from.ask({"MGET", "{k}1", "{k}2"})), "ASK");
  cluster.end_move(move);
  EXPECT_EQ(code(from.ask({"GET", "{k}1"})), "MOVED");
  EXPECT_EQ(cluster.owner_of(slot), move.to);
  EXPECT_EQ(cluster.node(move.to).command({"GET", "{k}1"}), "one");

  cluster.move_slot({slot, owner});
  EXPECT_EQ(from.ask({"GET", "{k}2"}).text, "two");
}

TEST(RedisCluster, AReplicaTakesOver) {
  ClusterOptions options;
  options.replicas = true;
  RedisCluster cluster(options);
  ASSERT_EQ(cluster.size(), 6U);
  EXPECT_EQ(cluster.owner_of(0), 0U);
  cluster.node(0).kill();
  cluster.await_owner({.slot = 0, .to = 3});
  EXPECT_EQ(cluster.node(3).info("role"), "master");
}

}  // namespace
}  // namespace sluice::servers

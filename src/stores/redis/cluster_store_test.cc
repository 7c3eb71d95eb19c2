// The store on clusters whose map is not, or not yet, what it should be.

#include <gmock/gmock.h>

#include <array>
#include <chrono>
#include <future>
#include <stdexcept>
#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/redis_cluster.h"
#include "testing/error_of.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

// The options of a store on the cluster of that node.
RedisOptions options_for_node(const RedisServer& node, std::chrono::nanoseconds deadline = 5s) {
  return options_for(node, deadline, Topology::kCluster);
}

// The calls of the script but those of handshakes, each of which loads the script, too.
long script_calls(const RedisServer& node) {
  return calls(node, "evalsha") - calls(node, "script|load");
}

// A key of which the node has the slot.
std::string key_of(const servers::RedisCluster& cluster, std::size_t node) {
  std::string key;
  int number = 0;
  do {
    key = "key" + std::to_string(number++);
  } while (cluster.owner_of(cluster.slot_of("sluice:test:{" + key + "}")) != node);
  return key;
}

TEST(RedisStoreOnACluster, JudgesEachKeyOfASlotThatMoves) {
  servers::RedisCluster cluster;
  Limited limited(options_for_node(cluster.node(0)), "fixed_window 9/24h");
  const Limit other("fixed_window 5/24h", "other");
  const auto space = limited.store().open_space(other.definition());
  const Request fresh{.limit = &other.definition(), .space = space.get(), .key = "k"};
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

// A cluster with a node that has no slot, to which the slot of the key "k" begins to move.
class Importer {
 public:
  Importer() { cluster_.begin_move({.slot = slot_, .to = to_}); }

  servers::RedisCluster& cluster() { return cluster_; }
  RedisServer& node() { return cluster_.node(to_); }
  // Has the slot, or had it.
  RedisServer& other() { return cluster_.node(from_); }
  const std::string& key_of_other() const { return key_of_other_; }

  // The slot stays where it is.
  void cancel() {
    for (RedisServer* node : {&other(), &node()}) {
      EXPECT_EQ(node->command({"CLUSTER", "SETSLOT", std::to_string(slot_), "STABLE"}), "OK");
    }
  }

  // REQUIRES: no node has a key in the slot.
  void end_move() { cluster_.end_move({.slot = slot_, .to = to_}); }
  void move_there() { cluster_.move_slot({.slot = slot_, .to = to_}); }
  void move_back() { cluster_.move_slot({.slot = slot_, .to = from_}); }

 private:
  // A node stays a primary when it has given its last slot away.
  servers::RedisCluster cluster_{{.spare = true, .config = {"cluster-allow-replica-migration no"}}};
  const int slot_ = cluster_.slot_of("sluice:test:{k}");
  const std::size_t from_ = cluster_.owner_of(slot_);
  const std::size_t to_ = cluster_.size() - 1;
  const std::string key_of_other_ = key_of(cluster_, from_);
};

// Its connection is lost, which makes the map stale: it is read from that node, before the node
// answers anything else. No other is asked, which may be held up.
void read_map_from(const RedisServer& node, Limited& limited, const std::string& key_there) {
  const long asked = calls(node, "cluster|slots");
  EXPECT_NE(node.command({"CLIENT", "KILL", "TYPE", "NORMAL"}), "0");
  servers::await("the map to be read again", [&] { return calls(node, "cluster|slots") > asked; });
  EXPECT_EQ(limited.check(key_there, 0).remaining, 9);
}

// What is under way there is not lost when the map, in which the node is none of those that serve,
// is read again.
TEST(RedisStoreOnACluster, KeepsANodeThatImportsItsFirstSlot) {
  Importer importer;
  RedisServer& empty = importer.node();
  const std::string& key_there = importer.key_of_other();
  Limited limited(options_for_node(importer.cluster().node(0), 3s), "fixed_window 9/24h");
  limited.check(key_there, 0);
  EXPECT_EQ(limited.check("k").remaining, 8);
  ASSERT_EQ(empty.command({"DBSIZE"}), "1");
  empty.pause();
  // The request is lost if its connection ends before the other node has redirected it.
  const auto redirections = [&] { return importer.other().command({"INFO", "errorstats"}); };
  const std::string before = redirections();
  std::future<Answer> pending = limited.submit("k");
  servers::await("the redirection", [&] { return redirections() != before; });
  read_map_from(importer.other(), limited, key_there);
  empty.resume();
  const Answer answer = pending.get();
  EXPECT_EQ(answer.decision.source, Source::kStore) << answer.error;
  EXPECT_EQ(answer.decision.remaining, 7);
  // No key is asked for there any more.
  EXPECT_EQ(calls(empty, "client|setname"), 1) << "it stayed connected";
  servers::await("the node to be let go", [&] { return !is_connected(empty); });
}

TEST(RedisStoreOnACluster, LetsANodeGoToWhichNoSlotMovesAfterAll) {
  Importer importer;
  Limited limited(options_for_node(importer.cluster().node(0), 1s), "fixed_window 9/24h");
  EXPECT_EQ(limited.check("k").remaining, 8);
  EXPECT_EQ(calls(importer.node(), "client|setname"), 1) << "it was connected";
  importer.cancel();
  servers::await("the node to be let go", [&] { return !is_connected(importer.node()); });
}

// What is under way there when the map is read in which it has none any more is answered.
TEST(RedisStoreOnACluster, KeepsANodeThatHandsOverItsLastSlot) {
  Importer importer;
  RedisServer& leaving = importer.node();
  importer.end_move();
  const std::string& key_there = importer.key_of_other();
  // Its first map is right: no redirection makes it stale, after which the node that holds the
  // call up might be asked for it.
  Limited limited(options_for_node(leaving), "fixed_window 9/24h");
  limited.check(key_there, 0);
  EXPECT_EQ(limited.check("k", 0).remaining, 9);
  EXPECT_EQ(script_calls(leaving), 1);

  ASSERT_EQ(leaving.command({"CLIENT", "PAUSE", "10000", "WRITE"}), "OK");
  std::future<Answer> pending = limited.submit("k");
  servers::await("the call to be held up", [&] {
    return leaving.command({"CLIENT", "LIST"}).find("flags=b") != std::string::npos;
  });
  importer.move_back();
  read_map_from(importer.other(), limited, key_there);
  ASSERT_EQ(leaving.command({"CLIENT", "UNPAUSE"}), "OK");
  const Answer answer = pending.get();
  EXPECT_EQ(answer.decision.source, Source::kStore) << answer.error;
  EXPECT_EQ(answer.decision.remaining, 8);
  servers::await("the node to be let go", [&] { return !is_connected(leaving); });
}

TEST(RedisStoreOnACluster, TakesBackANodeThatHasASlotAgain) {
  Importer importer;
  importer.end_move();
  const std::string& key_there = importer.key_of_other();
  Limited limited(options_for_node(importer.cluster().node(0), 30s), "fixed_window 9/24h");
  limited.check(key_there, 0);
  limited.check("k", 0);
  importer.move_back();
  read_map_from(importer.other(), limited, key_there);
  EXPECT_EQ(script_calls(importer.node()), 1);
  limited.check("k", 0);
  EXPECT_EQ(script_calls(importer.node()), 1) << "it has gone";
  importer.move_there();
  limited.check("k", 0);
  EXPECT_EQ(script_calls(importer.node()), 2);
  EXPECT_EQ(calls(importer.node(), "client|setname"), 1) << "by the same connection";
}

// One call for each node, whatever the order of what is asked, and whichever node the URL names.
TEST(RedisStoreOnACluster, ABatchIsOneCallForEachSlot) {
  servers::RedisCluster cluster;
  Limited limited(options_for_node(cluster.node(2)), "fixed_window 100/24h");
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < cluster.size(); ++i) keys.push_back(key_of(cluster, i));
  std::vector<Request> requests;
  for (int round = 0; round < 10; ++round) {
    for (const std::string& key : keys) requests.push_back(limited.request(key));
  }
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));
  for (std::size_t i = 0; i < cluster.size(); ++i) {
    EXPECT_EQ(script_calls(cluster.node(i)), 1) << i;
  }
}

TEST(RedisStoreOnACluster, TakesTogetherFromOneSlotOnly) {
  servers::RedisCluster cluster;
  Limited limited(options_for_node(cluster.node(0)), "fixed_window 100/24h");
  const std::string here = key_of(cluster, 0);
  const std::string there = key_of(cluster, 1);
  const std::array apart{limited.request(here), limited.request(there)};
  EXPECT_EQ(error_of<std::invalid_argument>([&] { limited.store().decide_all(apart, kStoreTime); }),
            "keys that are asked together on a cluster must share a slot, as equal keys do");
  for (const std::string& key : {here, there}) {
    EXPECT_EQ(limited.check(key, 0).remaining, 100) << "nothing is charged";
  }
  // Equal keys do, also the empty one, which limits with a single key often have.
  const Limit total("fixed_window 9/24h", "total");
  const auto space = limited.store().open_space(total.definition());
  const std::array together{limited.request(""),
                            Request{.limit = &total.definition(), .space = space.get(), .key = ""}};
  EXPECT_EQ(limited.store().decide_all(together, kStoreTime).remaining, 8);
}

}  // namespace
}  // namespace sluice::redis

// The store on clusters whose map is not, or not yet, what it should be.

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/redis_cluster.h"
#include "servers/socket.h"
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
  keys.reserve(300);
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

// How often the cluster's nodes have been asked for the map of slots.
long maps_asked(servers::RedisCluster& cluster) {
  long sum = 0;
  for (std::size_t i = 0; i < cluster.size(); ++i) sum += calls(cluster.node(i), "cluster|slots");
  return sum;
}

bool is_connected(const RedisServer& server) {
  return server.command({"CLIENT", "LIST"}).find("name=sluice") != std::string::npos;
}

// A node without a slot, to which the slot of a key begins to move.
class Importer {
 public:
  explicit Importer(servers::RedisCluster& cluster)
      : node_({.config = {"cluster-enabled yes",
                          "cluster-port " + std::to_string(servers::free_port())}}),
        slot_(std::to_string(cluster.slot_of("sluice:test:{k}"))) {
    const std::size_t from = cluster.owner_of(cluster.slot_of("sluice:test:{k}"));
    from_ = &cluster.node(from);
    const std::string id = node_.command({"CLUSTER", "MYID"});
    EXPECT_EQ(node_.command({"CLUSTER", "MEET", "127.0.0.1", std::to_string(from_->port()),
                             std::to_string(cluster.bus_port(from))}),
              "OK");
    servers::await("a node without a slot, which knows the others", [&] {
      return node_.command({"CLUSTER", "INFO"}).starts_with("cluster_state:ok") &&
             from_->command({"CLUSTER", "SETSLOT", slot_, "MIGRATING", id}) == "OK" &&
             node_.command({"CLUSTER", "SETSLOT", slot_, "IMPORTING", cluster.node_id(from)}) ==
                 "OK";
    });
  }

  RedisServer& node() { return node_; }

  // The slot stays where it is.
  void cancel() {
    EXPECT_EQ(from_->command({"CLUSTER", "SETSLOT", slot_, "STABLE"}), "OK");
    EXPECT_EQ(node_.command({"CLUSTER", "SETSLOT", slot_, "STABLE"}), "OK");
  }

 private:
  RedisServer node_;
  const std::string slot_;
  const RedisServer* from_ = nullptr;
};

// What is under way there is not lost when the map, in which the node is none of those that serve,
// is read again.
TEST(RedisStoreOnACluster, KeepsANodeThatImportsItsFirstSlot) {
  servers::RedisCluster cluster;
  Importer importer(cluster);
  RedisServer& empty = importer.node();
  Limited limited(options_for_node(cluster.node(0), 3s), "fixed_window 9/24h");
  EXPECT_EQ(limited.check("k").remaining, 8);
  ASSERT_EQ(empty.command({"DBSIZE"}), "1");
  AwaitedInquiry inquiry;
  Decision decision;
  const Request request = limited.request("k");
  inquiry.requests = {&request, 1};
  inquiry.decisions = {&decision, 1};
  empty.pause();
  ASSERT_FALSE(limited.store().submit(inquiry));
  // Another slot has moved meanwhile, which makes the map doubtful.
  const int other = cluster.slot_of("sluice:test:{other}");
  limited.check("other");
  cluster.move_slot({.slot = other, .to = (cluster.owner_of(other) + 1) % 3});
  const long asked = maps_asked(cluster);
  EXPECT_EQ(limited.check("other").remaining, 7);
  servers::await("the map to be read again", [&] { return maps_asked(cluster) > asked; });
  EXPECT_EQ(limited.check("other").remaining, 6);
  empty.resume();
  inquiry.wait();
  EXPECT_EQ(decision.source, Source::kStore) << inquiry.fault;
  EXPECT_EQ(decision.remaining, 7);
  // Nobody asks there any more.
  EXPECT_TRUE(is_connected(empty));
  servers::await("the node to be let go", [&] { return !is_connected(empty); });
}

TEST(RedisStoreOnACluster, LetsANodeGoToWhichNoSlotMovesAfterAll) {
  servers::RedisCluster cluster;
  Importer importer(cluster);
  Limited limited(options_for_node(cluster.node(0), 3s), "fixed_window 9/24h");
  EXPECT_EQ(limited.check("k").remaining, 8);
  EXPECT_TRUE(is_connected(importer.node()));
  importer.cancel();
  servers::await("the node to be let go", [&] { return !is_connected(importer.node()); });
}

TEST(RedisStoreOnACluster, ComesToLifeWithTheClustersSlots) {
  const RedisServer node(
      {.config = {"cluster-enabled yes", "cluster-port " + std::to_string(servers::free_port())}});
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

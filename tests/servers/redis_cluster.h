#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "servers/redis_server.h"
#include "servers/temporary_folder.h"

namespace sluice::servers {

struct ClusterOptions {
  std::size_t primaries = 3;
  /// Every primary has one replica, which takes over when the primary is lost.
  bool replicas = false;
  /// A node is lost when it has been silent for so long. For a test that loses a node, 1 s; others
  /// should not have CLUSTERDOWN because a busy machine holds a node for a while.
  std::chrono::milliseconds lost_after{10'000};
  /// One more primary, the last node, which has no slot yet.
  bool spare = false;
  /// The password of each node, as in RedisOptions.
  std::string password = {};
  bool tls = false;
  /// Lines added to the configuration of each node.
  std::vector<std::string> config = {};
};

inline constexpr int kSlots = 16'384;

/// A Redis Cluster on this machine, with evenly distributed slots. Takes about 2 s to start, since
/// a primary waits that long before it takes part. Not thread-safe.
class RedisCluster {
 public:
  /// Returns once every node knows the whole cluster. Throws std::runtime_error.
  explicit RedisCluster(ClusterOptions options = {});

  /// "redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT…", the initial primaries with slots; with
  /// "default:PASSWORD@" if there is a password, and "?tls=yes" for TLS.
  std::string url() const;

  /// The nodes are the initial primaries in the order of their slots, then their replicas in that
  /// order, then the spare one.
  std::size_t size() const { return nodes_.size(); }
  RedisServer& node(std::size_t i) { return *nodes_.at(i); }

  int slot_of(std::string_view key) const;
  /// The node that serves the slot, according to the first running node.
  std::size_t owner_of(int slot) const;

  struct SlotMove {
    int slot = 0;
    /// A node that does not own the slot.
    std::size_t to = 0;
  };

  /// The steps of moving a slot, so that a test can stop between them. After begin_move() the owner
  /// replies ASK for keys that it does not have, so also for each key that was moved (TRYAGAIN for
  /// a command with keys on both nodes); after end_move() it replies MOVED.
  void begin_move(SlotMove move);
  /// Moves at most `count` keys. Returns how many.
  std::size_t move_keys(SlotMove move, std::size_t count);
  /// REQUIRES: the owner has no key of the slot.
  void end_move(SlotMove move);

  /// All three steps.
  void move_slot(SlotMove move);

  /// Returns once every running node reports the cluster as ok and knows the same owners.
  void await_agreement() const;
  /// The same, with `move.to` as owner of the slot: for example, a replica that takes over.
  void await_owner(SlotMove move) const;

 private:
  RedisServer& running() const;
  bool agrees() const;
  void write_map(std::size_t self) const;

  ClusterOptions options_;
  TemporaryFolder folder_;
  std::vector<std::string> ids_;
  std::vector<std::uint16_t> ports_;
  std::vector<std::uint16_t> bus_ports_;
  std::vector<std::unique_ptr<RedisServer>> nodes_;
};

}  // namespace sluice::servers

#pragma once

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
  /// Every primary has one replica, which takes over once the primary is silent for 1 s.
  bool replicas = false;
  /// One more primary, the last node, which has no slot yet.
  bool spare = false;
  /// Of each node, as in RedisOptions.
  std::string password = {};
  bool tls = false;
  /// Lines added to the configuration of each node.
  std::vector<std::string> config = {};
};

inline constexpr int kSlots = 16'384;

/// A Redis Cluster on this machine, its slots shared out evenly. About 2 s to start: a node that is
/// a primary waits so long before it takes part. One thread at a time.
class RedisCluster {
 public:
  /// Returns once every node sees the whole of it. Throws std::runtime_error.
  explicit RedisCluster(ClusterOptions options = {});

  /// "redis+cluster://127.0.0.1:PORT,127.0.0.1:PORT…", the primaries that began with slots; with
  /// "default:PASSWORD@" where there is one, and "?tls=yes" for TLS.
  std::string url() const;

  /// The primaries it began with, in the order of their slots, then their replicas in that order,
  /// then the spare one.
  std::size_t size() const { return nodes_.size(); }
  RedisServer& node(std::size_t i) { return *nodes_.at(i); }

  int slot_of(std::string_view key) const;
  /// Which node serves the slot, as the first node that runs believes.
  std::size_t owner_of(int slot) const;

  struct SlotMove {
    int slot = 0;
    /// A node that does not own the slot.
    std::size_t to = 0;
  };

  /// The steps of resharding, so that a test can stop between them. After the first the owner
  /// answers ASK for a key that it has not, and each key moved is one more of those (TRYAGAIN for a
  /// command with keys on both sides); after the last it answers MOVED.
  void begin_move(SlotMove move);
  /// Moves at most so many keys; returns how many.
  std::size_t move_keys(SlotMove move, std::size_t count);
  /// REQUIRES: the owner has no key of the slot any more.
  void end_move(SlotMove move);

  /// All three.
  void move_slot(SlotMove move);

  /// Returns once every node that runs says that the cluster is well and knows the same owners.
  void await_agreement() const;
  /// The same, with that owner of the slot: a replica that takes over, for example.
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

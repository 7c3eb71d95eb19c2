#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "stores/redis/lane.h"
#include "stores/redis/server_error.h"

namespace sluice::redis {

/// Where the errands of a slot go: a lane, or nowhere and why; neither: not known yet.
struct Way {
  Lane* lane = nullptr;
  std::string_view why = {};
};

/// Why a server that is asked alone cannot redirect.
inline constexpr std::string_view kPartOfCluster =
    "it is part of a cluster, whose URL is redis+cluster://";

/// The servers of a store, and which of them has what. All members belong to the courier's thread,
/// except that it is made before the courier starts, and may be destroyed after it has ended.
class Fleet {
 public:
  virtual ~Fleet() = default;

  virtual void start() = 0;
  virtual Way way(std::uint16_t slot) = 0;

  /// The lane to which a server has redirected an errand, for good (kMoved) or not (kAsk), or why
  /// there is none.
  virtual Way redirect(const ServerError& error, const Lane& from) = 0;

  /// What a server has `said` (kClusterDown, kReadOnly) makes the picture of the fleet doubtful:
  /// look again. False where that cannot help whoever asks now.
  virtual bool doubt(Lane& lane, std::string_view said) = 0;

  virtual void on_up(Lane& lane) = 0;
  virtual void on_down(Lane& lane, std::string_view why) = 0;

  /// One lane to each server that holds keys, as far as they are known.
  virtual std::vector<Lane*> servers() = 0;
};

/// What a fleet is made with. `changed`: ways may be known that were not.
struct FleetParts {
  const RedisOptions& options;
  Courier& courier;
  LaneOwner& owner;
  std::function<void()> changed;
};

/// The connections to one server.
class Node {
 public:
  /// `settings.max_in_flight` and the rest are those of each lane.
  Node(const LaneSettings& settings, const Endpoint& endpoint, LaneOwner& owner);

  void start();
  Lane& lane(std::uint16_t slot) { return *lanes_[slot % lanes_.size()]; }
  std::vector<std::unique_ptr<Lane>>& lanes() { return lanes_; }
  bool has(const Lane& lane) const;
  const Endpoint& endpoint() const { return lanes_.front()->endpoint(); }

 private:
  std::vector<std::unique_ptr<Lane>> lanes_;
};

/// One server, for as long as the store is open.
std::unique_ptr<Fleet> make_single_fleet(const FleetParts& parts);
/// The lane that a caller may drive itself: a single server never changes.
Lane& only_lane(Fleet& single);

/// One primary, which sentinels name, and name anew when it is lost.
std::unique_ptr<Fleet> make_sentinel_fleet(const FleetParts& parts);

/// Primaries that share the slots of a cluster.
std::unique_ptr<Fleet> make_cluster_fleet(const FleetParts& parts);

}  // namespace sluice::redis

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "stores/redis/connection.h"
#include "stores/redis/resp.h"

namespace sluice::redis {

/// Where the requests of a slot go: a connection, or nowhere and why; neither: not known yet.
struct Route {
  Connection* connection = nullptr;
  std::string_view error = {};
};

/// The servers of a store, and which of them has what. All members belong to the thread that leads
/// the worker, except that it is made before the worker starts, and destroyed after it has stopped.
class Fleet {
 public:
  virtual ~Fleet() = default;

  virtual void start() = 0;
  virtual Route route(std::uint16_t slot) = 0;

  /// The connection to which a server has redirected a request, for good (kMoved) or not (kAsk), or
  /// why there is none.
  virtual Route redirect(const ServerError& /*error*/, const Connection& /*from*/) {
    return {.error = "it is part of a cluster, whose URL is redis+cluster://"};
  }

  /// What a server has `said` (kClusterDown, kReadOnly) makes the picture of the fleet doubtful:
  /// look again. False where that cannot help those who ask now.
  virtual bool doubt(Connection& connection, std::string_view said) = 0;

  virtual void on_up(Connection& /*connection*/) {}
  virtual void on_down(Connection& /*connection*/, std::string_view /*why*/) {}

  /// One connection to each server that holds keys, as far as they are known.
  virtual std::vector<Connection*> servers() = 0;
};

/// What a fleet is made with. `changed`: routes may be known that were not; the requests, which
/// were not sent, are to be routed again.
struct FleetParts {
  const RedisOptions& options;
  RemoteWorker& worker;
  ConnectionOwner& owner;
  std::function<void(RequestList)> changed;
};

/// The connections to one server.
class Node {
 public:
  Node(const ConnectionSettings& settings, const Endpoint& endpoint, ConnectionOwner& owner) {
    for (std::size_t i = 0; i < settings.options.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(settings, endpoint, owner));
    }
  }

  void start() {
    for (auto& connection : connections_) connection->start();
  }
  Connection& connection(std::uint16_t slot = 0) {
    return *connections_[slot % connections_.size()];
  }
  std::vector<std::unique_ptr<Connection>>& connections() { return connections_; }
  bool has(const Connection& connection) const {
    return std::ranges::find(connections_, &connection, &std::unique_ptr<Connection>::get) !=
           connections_.end();
  }
  const Endpoint& endpoint() const { return connections_.front()->endpoint(); }
  /// Moves all requests that wait to `list`, but those that were sent to this server alone.
  void return_waiting(RequestList& list) {
    for (auto& connection : connections_) connection->return_waiting(list);
  }

 private:
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// One primary, which sentinels name, and name anew when it is lost.
std::unique_ptr<Fleet> make_sentinel_fleet(const FleetParts& parts);

/// Primaries that share the slots of a cluster.
std::unique_ptr<Fleet> make_cluster_fleet(const FleetParts& parts);

}  // namespace sluice::redis

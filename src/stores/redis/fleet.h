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

/// Where to send the requests of a slot: a connection; or, if there is none, an error; or neither,
/// if it is not known yet.
struct Route {
  Connection* connection = nullptr;
  std::string_view error = {};
};

/// The servers of a store, and which of them has which slots. Made before the worker starts,
/// destroyed after it has stopped; in between it is used only by the thread that leads the worker.
class Fleet {
 public:
  virtual ~Fleet() = default;

  virtual void start() = 0;
  virtual Route route(std::uint16_t slot) = 0;

  /// The connection to the server named by a redirection: kMoved (the slot has moved) or kAsk (it
  /// is moving); or the error, if there is no such connection.
  virtual Route redirect(const ServerError& /*error*/, const Connection& /*from*/) {
    return {.error = "it is part of a cluster, whose URL is redis+cluster://"};
  }

  /// A server has sent the error `said` (kClusterDown or kReadOnly), so the known routes may be
  /// wrong: the fleet asks for them again. Returns whether the refused request should be routed
  /// again; if not, it fails.
  virtual bool doubt(Connection& connection, std::string_view said) = 0;

  virtual void on_up(Connection& /*connection*/) {}
  virtual void on_down(Connection& /*connection*/, std::string_view /*why*/) {}

  /// One connection to each known server that holds keys.
  virtual std::vector<Connection*> servers() = 0;
};

/// The parameters of a fleet. It calls `changed` when routes have become known, with the requests
/// that must be routed again, none of which was sent.
struct FleetParts {
  const RedisOptions& options;
  RemoteWorker& worker;
  ConnectionListener& listener;
  std::function<void(RequestList)> changed;
};

/// The connections to one server.
class Node {
 public:
  Node(const ConnectionSettings& settings, const Endpoint& endpoint, ConnectionListener& listener) {
    for (std::size_t i = 0; i < settings.options.connections; ++i) {
      connections_.push_back(std::make_unique<Connection>(settings, endpoint, listener));
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
  /// As Connection::return_waiting(), for all connections.
  void return_waiting(RequestList& list) {
    for (auto& connection : connections_) connection->return_waiting(list);
  }

 private:
  std::vector<std::unique_ptr<Connection>> connections_;
};

/// A fleet of one server, for as long as the store is open.
std::unique_ptr<Fleet> make_single_fleet(const FleetParts& parts);

/// A fleet of one primary, whose address the sentinels tell, and tell again after a failover.
std::unique_ptr<Fleet> make_sentinel_fleet(const FleetParts& parts);

/// A fleet of the primaries of a Redis Cluster.
std::unique_ptr<Fleet> make_cluster_fleet(const FleetParts& parts);

}  // namespace sluice::redis

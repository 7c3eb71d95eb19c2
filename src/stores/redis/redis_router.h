#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/connection.h"
#include "stores/redis/resp.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

/// Where to send the requests of a slot: a connection; or, if there is none, an error; or neither,
/// if it is not known yet.
struct Route {
  Connection* connection = nullptr;
  std::string_view error = {};
};

/// Gives each request to a connection to the server of its key, and to another one if that server
/// redirects it. A derived class for each topology knows the servers, and which of them has which
/// slots. Made before the worker starts, and destroyed after it has stopped. Its
/// connections begin to connect when the worker starts.
class RedisRouter : public Router, public ConnectionListener {
 public:
  /// One connection to each known server that holds keys.
  virtual std::vector<Connection*> servers() = 0;

  bool is_cluster() const { return options_.topology == Topology::kCluster; }
  /// Whether a server was ever connected, so that keys may have been written.
  bool was_connected() const { return was_connected_; }

  void route(PendingRequest& request) override;
  void flush() override;
  std::optional<RemoteWorker::Clock::time_point> sent_at(const PendingRequest& request) override;
  std::string expire(PendingRequest& request) override;
  void abandon(PendingRequest& request) override { Connection::abandon(request); }

  void on_up(Connection& /*connection*/) override { was_connected_ = true; }
  void on_error(Connection& connection, const ServerError& error) override;
  void on_refused(PendingRequest& request, Connection& connection,
                  const ServerError& error) override;

 protected:
  RedisRouter(const RedisOptions& options, RemoteWorker& worker);

  /// Where the requests of this slot go now. Called for each request, and again when it is late.
  virtual Route find(std::uint16_t slot) = 0;

  /// The connection to the server named by a redirection: kMoved (the slot has moved, which
  /// on_error() has learned) or kAsk (it is moving); or the error, if there is no such connection.
  virtual Route redirect(const ServerError& /*error*/, const Connection& /*from*/) {
    return {.error = "it is part of a cluster, whose URL is redis+cluster://"};
  }

  /// Why there are no routes: the server has answered with the error `said` to what only a server
  /// of this kind ("sentinel") understands.
  static std::string refusal(const Connection& server, const std::string& kind,
                             std::string_view said);

  /// Called by the derived class when no server can be found out, for this reason: requests fail
  /// with it, and wait no longer, until routes_known() is called.
  void no_routes(std::string why);
  /// Called by the derived class when routes have become known, with requests that must be routed
  /// again, none of which was sent. Also routes those that have waited.
  void routes_known(RequestList again);
  /// What find() returns as long as no routes are known.
  Route unknown() const { return {.error = no_routes_}; }

  const RedisOptions& options_;
  RemoteWorker& worker_;

 private:
  void take(PendingRequest& request);
  void take_all(RequestList& requests);
  void redirect_request(const ServerError& error, PendingRequest& request, Connection& from);
  void touch(Connection& connection);

  std::vector<Connection*> touched_;  // They were given requests since the last flush().
  RequestList waiting_;               // They wait until it is known which server has their key.
  std::string no_routes_;             // Why they fail instead; empty: they wait.
  bool was_connected_ = false;
};

/// The router for the topology. Both outlive it. Throws as TlsClient does.
std::unique_ptr<RedisRouter> make_router(const RedisOptions& options, RemoteWorker& worker);

/// To one primary, whose address the sentinels tell, and tell again after a failover.
std::unique_ptr<RedisRouter> make_sentinel_router(const RedisOptions& options,
                                                  RemoteWorker& worker);
/// To the primaries of a Redis Cluster.
std::unique_ptr<RedisRouter> make_cluster_router(const RedisOptions& options, RemoteWorker& worker);

/// Removes every key that begins with `prefix` from all servers, if any was ever connected, page by
/// page. It ends early where a server does not answer, and asks for no more pages after `most`: a
/// server may name pages of keys without an end. REQUIRES: the worker has started, and the caller
/// is not the worker thread.
void sweep(RemoteWorker& worker, RedisRouter& router, const std::string& prefix,
           std::chrono::milliseconds most = std::chrono::hours(1));

/// The connections to one server.
class Node {
 public:
  Node(const RedisOptions& options, RemoteWorker& worker, Connection::Purpose purpose,
       const Endpoint& endpoint, ConnectionListener& listener) {
    for (std::size_t i = 0; i < options.connections; ++i) {
      connections_.push_back(
          std::make_unique<Connection>(options, worker, purpose, endpoint, listener));
    }
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

}  // namespace sluice::redis

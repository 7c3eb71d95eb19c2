#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/fleet.h"
#include "stores/remote/remote_worker.h"
#include "stores/remote/server_health.h"

namespace sluice::redis {

/// Gives each request to the connection that leads to the server of its key, and to another one if
/// that server redirects it. Used only by the thread that leads the worker.
class RedisRouter final : public Router, public ConnectionListener {
 public:
  explicit RedisRouter(const RedisOptions& options)
      : options_(options), nowhere_("redis", options.deadline) {}

  /// Makes the fleet, which can route requests once it has started. Throws std::runtime_error if a
  /// TLS file cannot be used.
  void open(RemoteWorker& worker);
  Fleet& fleet() { return *fleet_; }
  bool is_cluster() const { return options_.topology == Topology::kCluster; }
  /// Whether a server was ever connected, so that keys may have been written.
  bool was_connected() const { return was_connected_; }

  void route(PendingRequest& request) override;
  void flush() override;
  std::optional<RemoteWorker::Clock::time_point> sent_at(const PendingRequest& request) override;
  std::string_view abandon(PendingRequest& request) override;

  void on_up(Connection& connection) override;
  void on_down(Connection& connection, std::string_view why) override {
    fleet_->on_down(connection, why);
  }
  void on_refused(PendingRequest& request, Connection& connection, std::string_view text) override;

 private:
  std::uint16_t slot_of(const PendingRequest& request) const;
  void take(PendingRequest& request);
  void take_all(RequestList& requests);
  void redirect(PendingRequest& request, Connection& connection, const ServerError& error);
  void touch(Connection& connection);

  const RedisOptions& options_;
  const ServerHealth nowhere_;  // Names no server: for requests whose server is not known yet.
  RemoteWorker* worker_ = nullptr;
  std::vector<Connection*> touched_;  // They were given requests since the last flush().
  RequestList waiting_;               // They wait until the fleet knows which server has their key.
  RequestList asked_later_;           // A server has said that it cannot answer them now.
  std::optional<IoTimer> later_;      // At its time these are routed again.
  bool was_connected_ = false;
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace sluice::redis

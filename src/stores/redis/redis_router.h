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

/// Takes requests to the server that has their key, and on to another one where a server says so.
/// Belongs to the thread that leads the worker.
class RedisRouter final : public Router, public ConnectionOwner {
 public:
  /// A request is redirected so often at most.
  static constexpr int kMaxRedirects = 5;

  explicit RedisRouter(const RedisOptions& options)
      : options_(options), nowhere_("redis", options.deadline) {}

  /// Makes the fleet, which takes requests once it has started. Throws std::runtime_error where a
  /// TLS file cannot be used.
  void open(RemoteWorker& worker);
  Fleet& fleet() { return *fleet_; }
  bool is_cluster() const { return options_.topology == Topology::kCluster; }
  /// A server was connected once, so that something may have been written.
  bool was_connected() const { return was_connected_; }

  void route(PendingRequest& request) override;
  void flush() override;
  std::string_view abandon(PendingRequest& request) override;

  void on_up(Connection& connection) override;
  void on_down(Connection& connection, std::string_view why) override {
    fleet_->on_down(connection, why);
  }
  void on_refused(PendingRequest& request, Connection& connection, std::string_view text) override;

 private:
  std::uint16_t slot_of(const PendingRequest& request);
  void take(PendingRequest& request);
  void take_all(RequestList& requests);
  void redirect(PendingRequest& request, Connection& connection, const ServerError& error);
  void touch(Connection& connection);

  const RedisOptions& options_;
  const ServerHealth nowhere_;  // Of the server that is not known yet.
  RemoteWorker* worker_ = nullptr;
  std::vector<Connection*> touched_;  // Were given requests since the last flush.
  RequestList waiting_;               // Until it is known which server has their key.
  RequestList asked_later_;           // A server cannot answer them now.
  std::optional<IoTimer> later_;      // Until these are asked again.
  bool was_connected_ = false;
  std::string key_;
  std::unique_ptr<Fleet> fleet_;
};

}  // namespace sluice::redis

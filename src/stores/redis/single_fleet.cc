#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/fleet.h"

namespace sluice::redis {
namespace {

// One server, for as long as the store is open.
class SingleFleet final : public Fleet {
 public:
  explicit SingleFleet(const FleetParts& parts)
      : node_({.options = parts.options, .worker = parts.worker}, parts.options.servers.front(),
              parts.listener) {}

  void start() override { node_.start(); }
  Route route(std::uint16_t slot) override { return {.connection = &node_.connection(slot)}; }
  // If the server says that it is a replica, a new connection may lead to the primary: after a
  // failover the host name or the load balancer may lead to another server.
  bool doubt(Connection& connection, std::string_view said) override {
    if (read_server_error(said).kind == ServerError::Kind::kReadOnly) {
      connection.reconnect(connection.name() + ": " + std::string(said));
    }
    return false;
  }
  std::vector<Connection*> servers() override { return {&node_.connection()}; }

 private:
  Node node_;
};

}  // namespace

std::unique_ptr<Fleet> make_single_fleet(const FleetParts& parts) {
  return std::make_unique<SingleFleet>(parts);
}

}  // namespace sluice::redis

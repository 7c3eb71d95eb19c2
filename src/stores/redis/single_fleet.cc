#include <algorithm>
#include <string>

#include "stores/redis/fleet.h"

namespace sluice::redis {
namespace {

class SingleFleet final : public Fleet {
 public:
  explicit SingleFleet(const FleetParts& parts)
      : node_({.options = parts.options, .worker = parts.worker}, parts.options.servers.front(),
              parts.owner) {}

  void start() override { node_.start(); }
  Route route(std::uint16_t slot) override { return {.connection = &node_.connection(slot)}; }
  Route redirect(const ServerError&, const Connection&) override {
    return {.error = kPartOfCluster};
  }
  // Where the server says that it is a replica, another connection may lead to the primary, as
  // after a failover that changes what a name or a balancer leads to.
  bool doubt(Connection& connection, std::string_view said) override {
    if (read_server_error(said).kind == ServerError::Kind::kReadOnly) {
      connection.reconnect(connection.name() + ": " + std::string(said));
    }
    return false;
  }
  void on_up(Connection&) override {}
  void on_down(Connection&, std::string_view) override {}
  std::vector<Connection*> servers() override { return {&node_.connection()}; }

 private:
  Node node_;
};

}  // namespace

Node::Node(const ConnectionSettings& settings, const Endpoint& endpoint, ConnectionOwner& owner) {
  for (std::size_t i = 0; i < settings.options.connections; ++i) {
    connections_.push_back(std::make_unique<Connection>(settings, endpoint, owner));
  }
}

void Node::start() {
  for (auto& connection : connections_) connection->start();
}

bool Node::has(const Connection& connection) const {
  return std::ranges::any_of(connections_,
                             [&](const auto& own) { return own.get() == &connection; });
}

void Node::give_back(RequestList& list) {
  for (auto& connection : connections_) connection->give_back(list);
}

std::unique_ptr<Fleet> make_single_fleet(const FleetParts& parts) {
  return std::make_unique<SingleFleet>(parts);
}

}  // namespace sluice::redis

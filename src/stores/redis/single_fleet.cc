#include "stores/redis/fleet.h"

namespace sluice::redis {
namespace {

class SingleFleet final : public Fleet {
 public:
  explicit SingleFleet(const FleetParts& parts)
      : node_({.options = parts.options, .courier = parts.courier}, parts.options.servers.front(),
              parts.owner) {}

  void start() override { node_.start(); }
  Way way(std::uint16_t slot) override { return {.lane = &node_.lane(slot)}; }
  Way redirect(const ServerError&, const Lane&) override { return {.why = kPartOfCluster}; }
  bool doubt(Lane& lane, std::string_view said) override {
    if (read_server_error(said).kind == ServerError::Kind::kReadOnly) lane.leave_replica(said);
    return false;
  }
  void on_up(Lane&) override {}
  void on_down(Lane&, std::string_view) override {}
  std::vector<Lane*> servers() override { return {&node_.lane(0)}; }

 private:
  Node node_;
};

}  // namespace

Node::Node(const LaneSettings& settings, const Endpoint& endpoint, LaneOwner& owner) {
  for (std::size_t i = 0; i < settings.options.connections; ++i) {
    lanes_.push_back(std::make_unique<Lane>(settings, endpoint, owner));
  }
}

void Node::start() {
  for (auto& lane : lanes_) lane->start();
}

bool Node::has(const Lane& lane) const {
  for (const auto& own : lanes_) {
    if (own.get() == &lane) return true;
  }
  return false;
}

std::unique_ptr<Fleet> make_single_fleet(const FleetParts& parts) {
  return std::make_unique<SingleFleet>(parts);
}

Lane& only_lane(Fleet& single) {
  return *single.way(0).lane;
}

}  // namespace sluice::redis

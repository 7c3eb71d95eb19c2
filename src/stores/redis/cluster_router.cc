#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "net/backoff.h"
#include "stores/redis/redis_router.h"
#include "stores/redis/resp.h"

namespace sluice::redis {
namespace {

using Clock = RemoteWorker::Clock;

// While the map of slots may be wrong, the router asks for it again and again. The pauses grow as
// long as the map stays the same: a cluster that lacks a node for hours is not asked by each of its
// clients 20 times a second.
constexpr std::chrono::milliseconds kLeastPause{50};
constexpr std::chrono::milliseconds kMostPause{500};
// How long a node without a slot is kept at least: replies may be on their way, and if a slot moves
// there, the next key may be sent there soon.
constexpr std::chrono::milliseconds kKeep{1'000};
// As many as the specification of Redis Cluster allows.
constexpr std::size_t kMaxNodes = 1'000;
constexpr std::string_view kTooManyNodes = "the cluster has named more than 1000 nodes";

class ClusterRouter final : public RedisRouter {
 public:
  ClusterRouter(const RedisOptions& options, RemoteWorker& worker)
      : RedisRouter(options, worker),
        slots_(kSlots),
        drop_(worker.context(), [this] { drop_others(); }),
        ask_(worker.context(), [this] {
          if (map_is_stale_ && !asking_) ask_next();
        }) {
    for (const Endpoint& seed : options.servers) add(seed);
    ask_soon();
  }

  // Destroyed before the other members, which the destructor of a connection still calls.
  ~ClusterRouter() override { nodes_.clear(); }

  Route find(std::uint16_t slot) override {
    if (slots_[slot] != nullptr) return {.connection = &slots_[slot]->connection(slot)};
    return known_ ? Route{.error = "no node of the cluster serves the key's slot"} : unknown();
  }

  Route redirect(const ServerError& error, const Connection& from) override {
    ClusterNode* const node = node_at(from.endpoint(), error.host, error.port);
    if (node == nullptr) return {.error = kTooManyNodes};
    if (!has_slot(node)) keep(*node);
    return {.connection = &node->connection(error.slot)};
  }

  void on_error(Connection& connection, const ServerError& error) override {
    using Kind = ServerError::Kind;
    if (error.kind == Kind::kClusterDown || error.kind == Kind::kReadOnly) ask_soon();
    if (error.kind != Kind::kMoved) return;
    ClusterNode* const node = node_at(connection.endpoint(), error.host, error.port);
    if (node != nullptr) node->kept_until = Clock::time_point::max();
    slots_[error.slot] = node;
    map_is_stale_ = true;
    pauses_.reset();
    ask_.set_at(asked_at_ + kLeastPause);
  }

  void on_up(Connection& connection) override {
    RedisRouter::on_up(connection);
    if (map_is_stale_ && !asking_) ask(connection);
  }

  void on_down(Connection& connection, std::string_view why) override {
    map_is_stale_ = true;
    // Once an attempt to reach it has failed, another node may have taken its place.
    if (connection.is_broken()) ask_soon();
    const auto is_broken = [](auto& entry) { return entry.second.is_broken(); };
    if (!known_ && std::ranges::all_of(nodes_, is_broken)) no_routes(std::string(why));
  }

  std::vector<Connection*> servers() override {
    std::vector<Connection*> connections;
    for (auto& [name, node] : nodes_) connections.push_back(&node.connection());
    return connections;
  }

 private:
  struct ClusterNode : Node {
    using Node::Node;

    bool is_broken() { return connection().is_broken(); }
    bool has_broken() { return std::ranges::any_of(connections(), &Connection::is_broken); }

    Clock::time_point kept_until = Clock::time_point::max();
  };

  bool has_slot(const Node* node) const { return std::ranges::find(slots_, node) != slots_.end(); }

  ClusterNode& add(const Endpoint& endpoint) {
    constexpr auto kPurpose = Connection::Purpose::kNode;
    return nodes_.try_emplace(endpoint.text(), options_, worker_, kPurpose, endpoint, *this)
        .first->second;
  }

  // The node that another node names; an empty host means that node's own. Null if there are too
  // many nodes.
  ClusterNode* node_at(Endpoint endpoint, const std::string& host, std::uint16_t port) {
    if (!host.empty()) endpoint.host = host;
    endpoint.port = port;
    const auto found = nodes_.find(endpoint.text());
    if (found != nodes_.end()) return &found->second;
    return nodes_.size() < kMaxNodes ? &add(endpoint) : nullptr;
  }

  // Keeps a node without a slot until requests that were sent there are answered or given up.
  void keep(ClusterNode& node) {
    node.kept_until = Clock::now() + keep_;
    if (!drop_.is_set()) drop_.set(keep_);
  }

  void drop_others() {
    const auto now = Clock::now();
    std::erase_if(nodes_, [&](const auto& entry) { return entry.second.kept_until <= now; });
    auto next = Clock::time_point::max();
    for (const auto& [name, node] : nodes_) next = std::min(next, node.kept_until);
    if (next != Clock::time_point::max()) drop_.set_at(next);
  }

  void ask_soon() {
    map_is_stale_ = true;
    if (!asking_ && !ask_.is_set()) ask_.set(kLeastPause);
  }

  // Asks one node after the other, in the order of nodes_.
  void ask_next() {
    std::vector<Connection*> up = servers();
    std::erase_if(up, [](const Connection* one) { return !one->is_up(); });
    const auto name = [](const Connection* one) { return one->endpoint().text(); };
    const auto next = std::ranges::find_if(up, [&](auto* one) { return name(one) > asked_; });
    if (!up.empty()) return ask(next != up.end() ? **next : *up.front());
    // The first that is up will be asked.
    for (const Endpoint& seed : options_.servers) node_at(seed, seed.host, seed.port);
    ask_.set(kMostPause);
  }

  void ask(Connection& connection) {
    connection.add_control(
        command_of({"CLUSTER", "SLOTS"}), [this, &connection](const Reply* reply) {
          asking_ = false;
          const auto ranges = reply == nullptr ? std::nullopt : read_cluster_slots(*reply);
          // A node that was restarted and has not met the others knows no slot: the map from other
          // nodes stays.
          if (ranges && !ranges->empty()) {
            apply(*ranges, connection.endpoint());
          } else if (reply != nullptr && !known_) {
            if (!reply->is_error()) {
              no_routes(connection.name() + (ranges ? " knows no slots of a cluster"
                                                    : " has told no map of a cluster"));
            } else if (read_server_error(reply->text).kind != ServerError::Kind::kBusy) {
              no_routes(refusal(connection, "node of a cluster", reply->text));
            }
          }
          if (map_is_stale_) {
            ask_.set_at(asked_at_ + pauses_.next());
          } else {
            ask_.cancel();  // If it is stale again soon, the node that said so is asked.
          }
        });
    asking_ = true;
    asked_ = connection.endpoint().text();
    asked_at_ = Clock::now();
    connection.flush();
  }

  void apply(const std::vector<SlotRange>& ranges, const Endpoint& asked) {
    const auto before = std::exchange(slots_, std::vector<ClusterNode*>(kSlots));
    for (const SlotRange& range : ranges) {
      ClusterNode* const node = node_at(asked, range.host, range.port);
      if (node == nullptr) continue;
      node->kept_until = Clock::time_point::max();
      for (std::size_t slot = range.first; slot <= range.last; ++slot) slots_[slot] = node;
    }
    known_ = true;
    map_is_stale_ = has_slot(nullptr);
    // Requests that wait for nodes without a slot are routed again.
    RequestList waiting;
    for (auto& [name, node] : nodes_) {
      if (has_slot(&node)) {
        map_is_stale_ = map_is_stale_ || node.has_broken();
        continue;
      }
      node.return_waiting(waiting);
      if (node.kept_until == Clock::time_point::max()) keep(node);
    }
    if (slots_ != before || !map_is_stale_) pauses_.reset();
    routes_known(std::move(waiting));
  }

  const Clock::duration keep_ = std::max<Clock::duration>(options_.deadline, kKeep);
  std::map<std::string, ClusterNode> nodes_;  // By address.
  std::vector<ClusterNode*> slots_;
  IoTimer drop_;              // When the next node without a slot is to go.
  bool known_ = false;        // The map has been read once.
  bool map_is_stale_ = true;  // It should be read again.
  bool asking_ = false;
  Clock::time_point asked_at_;
  IoTimer ask_;                              // When to ask for the map, while it is stale.
  Backoff pauses_{kLeastPause, kMostPause};  // Between two questions for it.
  std::string asked_;                        // The address of the last that was asked.
};

}  // namespace

std::unique_ptr<RedisRouter> make_cluster_router(const RedisOptions& options,
                                                 RemoteWorker& worker) {
  return std::make_unique<ClusterRouter>(options, worker);
}

}  // namespace sluice::redis

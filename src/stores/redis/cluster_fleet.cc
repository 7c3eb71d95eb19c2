#include <algorithm>
#include <map>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>

#include "net/backoff.h"
#include "stores/redis/cluster_slots.h"
#include "stores/redis/fleet.h"
#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

// While the map of slots is in doubt it is looked so often whether to ask for it. The pauses
// between two questions grow for as long as it comes back as it was: a cluster that lacks a node
// for hours is not asked by everybody 20 times a second.
constexpr std::chrono::milliseconds kLook{50};
constexpr Backoff::Bounds kPauses{.least = kLook, .most = std::chrono::milliseconds(500)};
// One slot a call, so that many calls are needed to keep a node busy.
constexpr std::size_t kMaxInFlight = 64;
// A node that has no slot is kept for so long at least: replies may be on their way, and where a
// slot moves there, the next key may be sent there soon.
constexpr std::chrono::milliseconds kKeep{1'000};

class ClusterFleet final : public Fleet {
 public:
  explicit ClusterFleet(const FleetParts& parts)
      : parts_(parts),
        slots_(kSlots),
        drop_(context(), [this] { drop_retired(); }),
        look_(context(),
              [this] {
                if (in_doubt_) watch(true);
              }),
        look_again_(context(), [this] {
          cast_doubt();
          watch();
        }) {
    for (const Endpoint& seed : parts.options.servers) add(seed);
  }

  // What is lost with a connection is told to members that are still there.
  ~ClusterFleet() override {
    retired_.clear();
    nodes_.clear();
  }

  void start() override {
    for (auto& [name, node] : nodes_) node->start();
    watch();
  }

  Route route(std::uint16_t slot) override {
    if (slots_[slot] != nullptr) return {.connection = &slots_[slot]->connection(slot)};
    if (known_) return {.error = "no node of the cluster serves the key's slot"};
    if (!std::all_of(nodes_.begin(), nodes_.end(),
                     [](const auto& entry) { return entry.second->connection().is_broken(); })) {
      return {};
    }
    return {.error = error_};
  }

  Route redirect(const ServerError& error, const Connection& from) override {
    Endpoint endpoint = from.endpoint();
    if (!error.host.empty()) endpoint.host = error.host;
    endpoint.port = error.port;
    Node* const node = node_at(endpoint);
    if (error.kind == ServerError::Kind::kMoved) {
      slots_[error.slot] = node;
      in_doubt_ = true;
      ask_soon();
      watch();
    }
    if (node == nullptr) return {.error = error_};
    // Where the slot does not move after all, nobody else would ask for the map.
    if (error.kind == ServerError::Kind::kAsk && !look_again_.is_set()) look_again_.set(keep_);
    return {.connection = &node->connection(error.slot)};
  }

  bool doubt(Connection&, std::string_view) override {
    cast_doubt();
    watch();
    return true;
  }

  void on_up(Connection& connection) override {
    if (in_doubt_ && !asking_ && !is_retired(connection)) ask(connection);
  }

  void on_down(Connection& connection, std::string_view why) override {
    if (is_retired(connection)) return;
    error_ = why;
    cast_doubt();
    if (!known_) parts_.changed();
    // Once an attempt to reach it has failed, another node may have taken its place.
    if (connection.is_broken()) watch();
  }

  std::vector<Connection*> servers() override {
    std::vector<Connection*> connections;
    for (auto& [name, node] : nodes_) connections.push_back(&node->connection());
    // Among them may be one that imports its first slot.
    for (const Retired& retired : retired_) connections.push_back(&retired.node->connection());
    return connections;
  }

 private:
  IoContext& context() { return parts_.worker.context(); }

  Node& add(const Endpoint& endpoint) {
    const ConnectionSettings settings{.options = parts_.options,
                                      .worker = parts_.worker,
                                      .one_slot = true,
                                      .max_in_flight = kMaxInFlight};
    auto node = std::make_unique<Node>(settings, endpoint, parts_.owner);
    return *nodes_.insert_or_assign(endpoint.text(), std::move(node)).first->second;
  }

  // Null where a TLS file cannot be used any more: error_ says which.
  Node* node_at(const Endpoint& endpoint) {
    const std::string name = endpoint.text();
    const auto known = nodes_.find(name);
    if (known != nodes_.end()) return known->second.get();
    if (Node* const node = take_back(name)) return node;
    try {
      Node& node = add(endpoint);
      node.start();
      return &node;
    } catch (const std::runtime_error& error) {
      error_ = error.what();
      return nullptr;
    }
  }

  // A retired node that serves again keeps its connections. Null where there is none of that name.
  Node* take_back(const std::string& name) {
    const auto found = std::ranges::find_if(
        retired_, [&](const Retired& retired) { return retired.node->endpoint().text() == name; });
    if (found == retired_.end()) return nullptr;
    auto& node = nodes_[name];
    node = std::move(found->node);
    retired_.erase(found);
    return node.get();
  }

  // Doubt that goes on is no news.
  void cast_doubt() {
    if (!std::exchange(in_doubt_, true)) ask_soon();
  }

  // Something is known that the map did not say: it is asked for at the next look.
  void ask_soon() {
    pauses_ = Backoff(kPauses);
    pauses_until_ = {};
  }

  // Looks whether to ask for the map, by one node after the other, until it is not in doubt: in a
  // while or, where that has passed (`due`), now and in a while.
  void watch(bool due = false) {
    if (look_.is_set()) return;
    look_.set(kLook);
    if (due && !asking_ && RemoteWorker::Clock::now() >= pauses_until_) ask_next();
  }

  void ask_next() {
    std::vector<Connection*> up;
    for (auto& [name, node] : nodes_) {
      if (node->connection().is_up()) up.push_back(&node->connection());
    }
    if (!up.empty()) return ask(*up[asked_++ % up.size()]);
    for (const Endpoint& seed : parts_.options.servers) node_at(seed);
  }

  void ask(Connection& connection) {
    connection.ask(
        {"CLUSTER", "SLOTS"}, [this, &connection](const Reply* reply, std::string_view why) {
          asking_ = false;
          const auto ranges = reply == nullptr ? std::nullopt : read_cluster_slots(*reply);
          // A node that has been started anew, and has met nobody yet, knows no slot: the map that
          // others gave stays.
          if (ranges && !ranges->empty()) {
            apply(*ranges, connection.endpoint());
          } else {
            const std::string_view other = ranges ? "it knows no slot" : "it is no cluster";
            error_ = connection.name() + ": " + std::string(reply == nullptr ? why : other);
          }
          if (in_doubt_) watch();
        });
    asking_ = true;
    const auto random = static_cast<std::uint32_t>(random_());
    pauses_until_ = RemoteWorker::Clock::now() + pauses_.after_failure(random);
    connection.flush();
  }

  void apply(const std::vector<SlotRange>& ranges, const Endpoint& asked) {
    const auto before = std::exchange(slots_, std::vector<Node*>(kSlots));
    for (const SlotRange& range : ranges) {
      Endpoint endpoint = asked;
      if (!range.host.empty()) endpoint.host = range.host;
      endpoint.port = range.port;
      Node* const node = node_at(endpoint);
      for (std::size_t slot = range.first; slot <= range.last; ++slot) slots_[slot] = node;
    }
    if (slots_ != before) ask_soon();
    known_ = true;
    retire_others();
    in_doubt_ = std::find(slots_.begin(), slots_.end(), nullptr) != slots_.end() ||
                std::any_of(nodes_.begin(), nodes_.end(), [](const auto& entry) {
                  return entry.second->connection().is_broken();
                });
    parts_.changed();
  }

  // Nodes that have no slot go, once nothing is under way there; what waits for them is sent where
  // it belongs now. One that imports its first slot is taken back by whatever is sent there next.
  void retire_others() {
    const auto until = RemoteWorker::Clock::now() + keep_;
    RequestList waiting;
    for (auto at = nodes_.begin(); at != nodes_.end();) {
      const auto next = std::next(at);
      const Node* const node = at->second.get();
      if (std::find(slots_.begin(), slots_.end(), node) == slots_.end()) {
        at->second->give_back(waiting);
        retired_.push_back({.node = std::move(at->second), .until = until});
        nodes_.erase(at);
      }
      at = next;
    }
    if (!retired_.empty() && !drop_.is_set()) drop_.set_at(retired_.front().until);
    if (waiting.empty()) return;
    // What is sent elsewhere may have a node taken back: it is not looked for again.
    Connection& from = retired_.back().node->connection();
    while (!waiting.empty()) parts_.owner.on_refused(waiting.pop_front(), from, {});
  }

  void drop_retired() {
    std::erase_if(retired_, [now = RemoteWorker::Clock::now()](const Retired& retired) {
      return retired.until <= now;
    });
    if (!retired_.empty()) drop_.set_at(retired_.front().until);
  }

  // What it tells of itself says nothing of the map.
  bool is_retired(const Connection& connection) const {
    return std::ranges::any_of(
        retired_, [&](const Retired& retired) { return retired.node->has(connection); });
  }

  struct Retired {
    std::unique_ptr<Node> node;
    RemoteWorker::Clock::time_point until;
  };

  const FleetParts parts_;
  // What is sent now has been answered after so long, or given up.
  const RemoteWorker::Clock::duration keep_ =
      std::max<RemoteWorker::Clock::duration>(parts_.options.deadline, kKeep);
  std::map<std::string, std::unique_ptr<Node>> nodes_;  // By address.
  std::vector<Node*> slots_;
  // One for an address, until nothing is under way there; whoever is to go first stands first.
  std::vector<Retired> retired_;
  IoTimer drop_;          // As long as there are some: when the first is to go.
  bool known_ = false;    // The map has been read once.
  bool in_doubt_ = true;  // It should be read again.
  bool asking_ = false;
  IoTimer look_;             // Whether to ask for the map.
  IoTimer look_again_;       // When a node that was asked for one slot alone may go.
  Backoff pauses_{kPauses};  // Between two questions for a map that is in doubt.
  RemoteWorker::Clock::time_point pauses_until_;
  std::mt19937 random_{std::random_device{}()};
  std::size_t asked_ = 0;
  std::string error_ = "no node of the cluster has answered yet";
};

}  // namespace

std::unique_ptr<Fleet> make_cluster_fleet(const FleetParts& parts) {
  return std::make_unique<ClusterFleet>(parts);
}

}  // namespace sluice::redis

#include "servers/redis_cluster.h"

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <utility>

#include "servers/await.h"
#include "servers/socket.h"

namespace sluice::servers {
namespace {

constexpr std::size_t kIdBytes = 40;
constexpr std::size_t kKeysAtOnce = 100;
constexpr const char* kMoveTimeoutMs = "5000";

std::string id_of(std::size_t i) {
  std::string digits = std::to_string(i + 1);
  return std::string(kIdBytes - digits.size(), '0') + digits;
}

/// The owners of the slots according to one node: (first slot, id of the primary), in order.
std::vector<std::pair<int, std::string>> owners(RedisServer& node) {
  std::vector<std::pair<int, std::string>> result;
  for (const Reply& range : node.client().ask({"CLUSTER", "SLOTS"}).elements) {
    result.emplace_back(std::stoi(range.elements[0].text), range.elements[2].elements[2].text);
  }
  std::sort(result.begin(), result.end());
  return result;
}

bool is_well(RedisServer& node) {
  return node.command({"CLUSTER", "INFO"}).starts_with("cluster_state:ok") &&
         (node.info("role") == "master" || node.info("master_link_status") == "up");
}

void expect_ok(RedisServer& node, const std::vector<std::string>& words) {
  const std::string reply = node.command(words);
  if (reply == "OK") return;
  throw std::runtime_error(node.url() + " answers " + words[0] + " " + words[1] + " with " + reply);
}

}  // namespace

// Each node starts with a complete map of the cluster, as if it had been a member before, so the
// nodes need not exchange it.
RedisCluster::RedisCluster(ClusterOptions options) : options_(std::move(options)) {
  const std::size_t count =
      options_.primaries * (options_.replicas ? 2 : 1) + (options_.spare ? 1 : 0);
  for (std::size_t i = 0; i < count; ++i) {
    ids_.push_back(id_of(i));
    ports_.push_back(free_port());
    bus_ports_.push_back(free_port());
  }
  for (std::size_t i = 0; i < count; ++i) {
    write_map(i);
    RedisOptions node{.password = options_.password, .tls = options_.tls, .port = ports_[i]};
    node.config = {"cluster-enabled yes",
                   "cluster-port " + std::to_string(bus_ports_[i]),
                   "cluster-config-file " + (folder_.path() / ids_[i]).native(),
                   "cluster-node-timeout " + std::to_string(options_.lost_after.count()),
                   "cluster-replica-validity-factor 0",
                   "repl-ping-replica-period 1"};
    node.config.insert(node.config.end(), options_.config.begin(), options_.config.end());
    nodes_.push_back(std::make_unique<RedisServer>(std::move(node)));
  }
  await_agreement();
}

void RedisCluster::write_map(std::size_t self) const {
  std::ofstream file(folder_.path() / ids_[self]);
  const std::size_t primaries = options_.primaries;
  for (std::size_t i = 0; i < ids_.size(); ++i) {
    const bool is_spare = options_.spare && i + 1 == ids_.size();
    const bool is_primary = i < primaries || is_spare;
    const std::string role = is_primary ? "master -" : "slave " + ids_[i - primaries];
    const std::size_t epoch = is_spare ? primaries : i % primaries;
    file << ids_[i] << " 127.0.0.1:" << ports_[i] << '@' << bus_ports_[i] << ' '
         << (i == self ? "myself," : "") << role << " 0 0 " << epoch + 1 << " connected";
    if (i < primaries) {
      file << ' ' << i * kSlots / primaries << '-' << (i + 1) * kSlots / primaries - 1;
    }
    file << '\n';
  }
  file << "vars currentEpoch " << primaries + 1 << " lastVoteEpoch 0\n";
  if (!file.flush()) throw std::runtime_error("cannot write below " + folder_.path().native());
}

std::string RedisCluster::url() const {
  std::string url = "redis+cluster://";
  if (!options_.password.empty()) url += "default:" + options_.password + "@";
  for (std::size_t i = 0; i < options_.primaries; ++i) {
    url += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(ports_[i]);
  }
  return url + (options_.tls ? "?tls=yes" : "");
}

RedisServer& RedisCluster::running() const {
  for (const auto& node : nodes_) {
    if (node->pid() > 0) return *node;
  }
  throw std::runtime_error("no node of the cluster runs");
}

int RedisCluster::slot_of(std::string_view key) const {
  return std::stoi(running().command({"CLUSTER", "KEYSLOT", std::string(key)}));
}

std::size_t RedisCluster::owner_of(int slot) const {
  std::string owner;
  for (const auto& [first, id] : owners(running())) {
    if (first <= slot) owner = id;
  }
  const auto found = std::find(ids_.begin(), ids_.end(), owner);
  if (found == ids_.end()) throw std::runtime_error("no owner of slot " + std::to_string(slot));
  return static_cast<std::size_t>(found - ids_.begin());
}

void RedisCluster::begin_move(SlotMove move) {
  const std::size_t from = owner_of(move.slot);
  const std::string slot = std::to_string(move.slot);
  expect_ok(node(move.to), {"CLUSTER", "SETSLOT", slot, "IMPORTING", ids_[from]});
  expect_ok(node(from), {"CLUSTER", "SETSLOT", slot, "MIGRATING", ids_[move.to]});
}

std::size_t RedisCluster::move_keys(SlotMove move, std::size_t count) {
  RedisServer& from = node(owner_of(move.slot));
  const Reply keys = from.client().ask(
      {"CLUSTER", "GETKEYSINSLOT", std::to_string(move.slot), std::to_string(count)});
  if (keys.elements.empty()) return 0;
  std::vector<std::string> words{"MIGRATE", "127.0.0.1", std::to_string(ports_[move.to]),
                                 "",        "0",         kMoveTimeoutMs};
  if (!options_.password.empty()) words.insert(words.end(), {"AUTH", options_.password});
  words.emplace_back("KEYS");
  for (const Reply& key : keys.elements) words.push_back(key.text);
  expect_ok(from, words);
  return keys.elements.size();
}

void RedisCluster::end_move(SlotMove move) {
  const std::size_t from = owner_of(move.slot);
  const std::vector<std::string> words{"CLUSTER", "SETSLOT", std::to_string(move.slot), "NODE",
                                       ids_[move.to]};
  expect_ok(node(move.to), words);  // First, since otherwise no node would own it for a moment.
  expect_ok(node(from), words);
  await_agreement();
}

void RedisCluster::move_slot(SlotMove move) {
  begin_move(move);
  while (move_keys(move, kKeysAtOnce) > 0) {
  }
  end_move(move);
}

bool RedisCluster::agrees() const {
  const auto expected = owners(running());
  return std::all_of(nodes_.begin(), nodes_.end(), [&](const auto& node) {
    return node->pid() <= 0 || (is_well(*node) && owners(*node) == expected);
  });
}

void RedisCluster::await_agreement() const {
  await("agreement of all nodes of the cluster", [this] { return agrees(); });
}

void RedisCluster::await_owner(SlotMove move) const {
  await("node " + std::to_string(move.to) + " to own slot " + std::to_string(move.slot),
        [this, move] { return agrees() && owner_of(move.slot) == move.to; });
}

}  // namespace sluice::servers

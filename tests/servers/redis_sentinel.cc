#include "servers/redis_sentinel.h"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <vector>

#include "servers/await.h"
#include "servers/socket.h"

namespace sluice::servers {
namespace {

// Sentinel's default periods, in milliseconds, are made for machines that are far apart. Among
// others, it does not promote a replica whose last information is older than five ping periods.
constexpr std::array<std::pair<const char*, const char*>, 4> kFastPeriods{
    {{"INFO-PERIOD", "200"},
     {"PING-PERIOD", "300"},
     {"ASK-PERIOD", "100"},
     {"MIN-LINK-RECONNECT-PERIOD", "100"}}};

// How often the first sentinel tells the others which server is the primary. The others keep the
// default of 2 s: a sentinel that sees the replica as a primary for four of its own periods, before
// it hears of a failover, makes it a replica again. The first sentinel, which leads failovers, may
// find out a second after the promotion, so 200 ms for all would undo a failover now and then.
constexpr const char* kFirstSentinelPublishes = "200";

/// The value after the field's name, in a flat array of names and values.
std::string field(const Reply& reply, const std::string& name) {
  for (std::size_t i = 0; i + 1 < reply.elements.size(); i += 2) {
    if (reply.elements[i].text == name) return reply.elements[i + 1].text;
  }
  return {};
}

/// Whether the sentinel has information from the replica, without which it cannot promote it, and
/// is connected to the other sentinels, without which there is no majority.
bool is_ready(const RedisServer& sentinel) {
  RespClient client = sentinel.client();
  const Reply replicas = client.ask({"SENTINEL", "REPLICAS", RedisSentinel::kMasterName});
  const Reply others = client.ask({"SENTINEL", "SENTINELS", RedisSentinel::kMasterName});
  return field(replicas.elements.at(0), "master-link-status") == "ok" &&
         std::all_of(others.elements.begin(), others.elements.end(),
                     [](const Reply& other) { return field(other, "flags") == "sentinel"; });
}

void set_period(const RedisServer& sentinel, const char* period, const char* ms) {
  const std::string reply = sentinel.command({"SENTINEL", "DEBUG", period, ms});
  if (reply != "OK") throw std::runtime_error("a sentinel refuses a period: " + reply);
}

}  // namespace

RedisSentinel::RedisSentinel(SentinelOptions options) : options_(std::move(options)) {
  start_servers();
  start_sentinels();
  await("sentinels that are ready", [this] {
    return std::all_of(sentinels_.begin(), sentinels_.end(),
                       [](const auto& sentinel) { return is_ready(*sentinel); });
  });
}

void RedisSentinel::start_servers() {
  RedisOptions options{.password = options_.password, .tls = options_.tls};
  servers_[0] = std::make_unique<RedisServer>(options);
  options.config = {"replicaof 127.0.0.1 " + std::to_string(servers_[0]->port())};
  servers_[1] = std::make_unique<RedisServer>(std::move(options));
  await("a replica that follows", [&] { return servers_[1]->info("master_link_status") == "up"; });
}

// Tells them of each other and of the replica, which they would otherwise find out only after
// seconds. They consider the primary lost one after the other: at the same time, each would vote
// for itself.
void RedisSentinel::start_sentinels() {
  std::array<std::uint16_t, kSentinels> ports;
  std::generate(ports.begin(), ports.end(), free_port);
  const auto id = [](std::size_t i) { return std::string(40, static_cast<char>('a' + i)); };
  const std::string name = kMasterName;
  const auto lost_after_ms = static_cast<std::size_t>(options_.lost_after.count());
  for (std::size_t i = 0; i < kSentinels; ++i) {
    RedisOptions options{.tls = options_.tls, .sentinel = true, .port = ports[i]};
    options.config = {
        "sentinel myid " + id(i),
        "sentinel monitor " + name + " 127.0.0.1 " + std::to_string(servers_[0]->port()) + " 1",
        "sentinel down-after-milliseconds " + name + " " + std::to_string(lost_after_ms * (i + 1)),
        "sentinel failover-timeout " + name + " " + std::to_string(2 * lost_after_ms),
        "sentinel known-replica " + name + " 127.0.0.1 " + std::to_string(servers_[1]->port())};
    if (!options_.password.empty()) {
      options.config.push_back("sentinel auth-pass " + name + " " + options_.password);
    }
    for (std::size_t other = 0; other < kSentinels; ++other) {
      if (other == i) continue;
      options.config.push_back("sentinel known-sentinel " + name + " 127.0.0.1 " +
                               std::to_string(ports[other]) + " " + id(other));
    }
    sentinels_[i] = std::make_unique<RedisServer>(std::move(options));
    for (const auto& [period, ms] : kFastPeriods) set_period(*sentinels_[i], period, ms);
    if (i == 0) set_period(*sentinels_[i], "PUBLISH-PERIOD", kFirstSentinelPublishes);
  }
}

std::string RedisSentinel::url() const {
  std::string url = "redis+sentinel://";
  if (!options_.password.empty()) url += "default:" + options_.password + "@";
  for (std::size_t i = 0; i < kSentinels; ++i) {
    url += (i == 0 ? "127.0.0.1:" : ",127.0.0.1:") + std::to_string(sentinels_[i]->port());
  }
  return url + "/" + kMasterName + (options_.tls ? "?tls=yes" : "");
}

RedisServer& RedisSentinel::running_sentinel() const {
  for (const auto& sentinel : sentinels_) {
    if (sentinel->pid() > 0) return *sentinel;
  }
  throw std::runtime_error("no sentinel runs");
}

std::uint16_t RedisSentinel::named_primary() const {
  const Reply address =
      running_sentinel().client().ask({"SENTINEL", "GET-MASTER-ADDR-BY-NAME", kMasterName});
  return static_cast<std::uint16_t>(std::stoul(address.elements.at(1).text));
}

void RedisSentinel::begin_failover() {
  await("a replica that can be promoted", [this] {
    const std::string reply = running_sentinel().command({"SENTINEL", "FAILOVER", kMasterName});
    // The sentinel has not heard from the replica for a while.
    if (reply.starts_with("-NOGOODSLAVE")) return false;
    if (reply != "OK") throw std::runtime_error("no failover: " + reply);
    return true;
  });
}

void RedisSentinel::await_primary(std::uint16_t port) const {
  const RedisServer& server = *servers_[servers_[0]->port() == port ? 0 : 1];
  await("a primary on port " + std::to_string(port), [&] {
    return server.pid() > 0 && named_primary() == port && server.info("role") == "master";
  });
}

}  // namespace sluice::servers

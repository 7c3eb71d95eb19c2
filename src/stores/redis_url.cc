#include "stores/redis_url.h"

#include <algorithm>
#include <string>
#include <string_view>

#include "core/read_number.h"
#include "stores/remote_url.h"

namespace sluice {
namespace {

using redis::RedisOptions;
using redis::Topology;

constexpr std::uint16_t kRedisPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::int64_t kMostDatabases = 65'535;
constexpr std::size_t kMostPrefixBytes = 128;

int read_database(const StoreUrl& url, std::string_view text) {
  int database = 0;
  if (!read_number(text, database) || database < 0 || database > kMostDatabases) {
    url.fail("a database is a whole number from 0 to " + std::to_string(kMostDatabases));
  }
  return database;
}

void read_hosts(StoreUrl& url, RedisOptions& redis, bool tls_wanted) {
  const std::uint16_t port = redis.topology == Topology::kSentinel ? kSentinelPort : kRedisPort;
  const auto tls = read_tls(url, tls_wanted);
  for (const StoreHost& host : url.hosts(port)) {
    redis.servers.push_back({.host = host.host, .port = host.port, .tls = tls});
  }
  if (redis.servers.empty()) url.fail("it names no server, as in redis://127.0.0.1:6379");
  redis.user = url.user();
  redis.password = url.password();
  if (redis.topology != Topology::kSentinel) return;
  redis.sentinel_user = url.text_option("sentinel_user").value_or("");
  redis.sentinel_password = url.text_option("sentinel_password").value_or("");
  if (!redis.sentinel_user.empty() && redis.sentinel_password.empty()) {
    url.fail("it names a sentinel_user without a sentinel_password");
  }
}

// Reads the path of the URL: "/3", "/mymaster" or "/mymaster/3".
void read_path(const StoreUrl& url, RedisOptions& redis) {
  std::string_view path = url.path();
  if (path.starts_with('/')) path.remove_prefix(1);
  if (redis.topology == Topology::kCluster) {
    if (!path.empty()) url.fail("a cluster has one database only: nothing can follow its servers");
    return;
  }
  if (redis.topology == Topology::kSentinel) {
    redis.primary_name = path.substr(0, path.find('/'));
    if (redis.primary_name.empty()) {
      url.fail("it does not say which primary, as in redis+sentinel://127.0.0.1/mymaster");
    }
    path.remove_prefix(std::min(path.size(), redis.primary_name.size() + 1));
  }
  if (!path.empty()) redis.database = read_database(url, path);
}

void read_unix(StoreUrl& url, RedisOptions& redis) {
  if (url.path().size() < 2 || !url.hosts(0).empty()) {
    url.fail("it names no socket, as in unix:///run/redis.sock");
  }
  redis.servers.push_back({.host = {}, .unix_path = url.path()});
  redis.user = url.text_option("user").value_or(url.user());
  redis.password = url.text_option("password").value_or(url.password());
  if (const auto database = url.whole_option("db", {.least = 0, .most = kMostDatabases})) {
    redis.database = static_cast<int>(*database);
  }
}

void read_behaviour(StoreUrl& url, const StoreOptions& options, RedisOptions& redis) {
  if (const auto prefix = url.text_option("prefix")) redis.prefix = *prefix;
  if (redis.prefix.empty() || redis.prefix.size() > kMostPrefixBytes ||
      redis.prefix.find_first_of("{}") != std::string::npos) {
    url.fail("a prefix has 1 to " + std::to_string(kMostPrefixBytes) + " bytes and no braces");
  }
  redis.deadline = read_deadline(url, options);
  redis.client_time = url.word_option("time", {"server", "client"}).value_or(0) == 1;
  if (const auto skew = url.duration_option("skew", {.least = 1, .most = kDayNs})) {
    redis.skew = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(*skew));
  }
  redis.connections = read_connections(url);
}

}  // namespace

RedisOptions read_redis_url(StoreUrl& url, const StoreOptions& options) {
  RedisOptions redis;
  const std::string& scheme = url.scheme();
  if (scheme == "unix") {
    read_unix(url, redis);
  } else {
    if (scheme == "redis+sentinel") redis.topology = Topology::kSentinel;
    if (scheme == "redis+cluster") redis.topology = Topology::kCluster;
    const bool tls = redis.topology == Topology::kSingle ? scheme == "rediss" || scheme == "valkeys"
                                                         : url.yes_no_option("tls", false);
    read_hosts(url, redis, tls);
    if (redis.topology == Topology::kSingle && redis.servers.size() > 1) {
      url.fail("it names several servers: redis+cluster:// or redis+sentinel:// is meant");
    }
    read_path(url, redis);
  }
  if (!redis.user.empty() && redis.password.empty()) {
    url.fail(
        "it names a user without a password, as in user:password@ before the server or the socket");
  }
  read_behaviour(url, options, redis);
  redis.virtual_time = options.virtual_time;
  if (options.virtual_time) redis.prefix += replay_suffix();
  url.finish();
  return redis;
}

}  // namespace sluice

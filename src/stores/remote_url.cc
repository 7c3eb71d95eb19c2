#include "stores/remote_url.h"

#include <algorithm>
#include <random>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/read_number.h"
#include "net/tls_client.h"
#include "stores/memcached/memcached_space.h"

namespace sluice {
namespace {

using memcached::MemcachedOptions;
using redis::RedisOptions;
using redis::Topology;

constexpr std::uint16_t kRedisPort = 6379;
constexpr std::uint16_t kSentinelPort = 26379;
constexpr std::uint16_t kMemcachedPort = 11211;
constexpr std::int64_t kMostDatabases = 65'535;
constexpr std::size_t kMostPrefixBytes = 128;

// Reads no option unless it is wanted.
std::shared_ptr<TlsContext> read_tls(StoreUrl& url, bool wanted) {
  if (!wanted) return nullptr;
  return std::make_shared<TlsContext>(
      TlsOptions{.ca_file = url.text_option("ca").value_or(""),
                 .certificate_file = url.text_option("cert").value_or(""),
                 .key_file = url.text_option("key").value_or(""),
                 .server_name = url.text_option("server_name").value_or(""),
                 .insecure = !url.yes_no_option("verify", true)});
}

// At most 32 characters of a-z, 0-9 and '-', different each time.
std::string replay_suffix() {
  std::random_device random;
  std::ostringstream suffix;
  suffix << "-replay-" << std::hex << random() << random();
  return suffix.str();
}

// What both kinds of servers have. `a_prefix` says what a prefix is.
template <class Options>
void read_common(StoreUrl& url, const StoreOptions& how, bool (*is_prefix)(std::string_view),
                 const std::string& a_prefix, Options& options) {
  using namespace std::chrono_literals;
  if (const auto prefix = url.text_option("prefix")) options.prefix = *prefix;
  if (!is_prefix(options.prefix)) url.fail("a prefix has 1 to " + a_prefix);
  const OptionRange deadline{.least = kMillisecondNs, .most = 60 * kSecondNs};
  if (const auto ns = url.duration_option("deadline", deadline)) {
    options.deadline = std::chrono::nanoseconds(*ns);
  }
  if (const auto count = url.whole_option("connections", {.least = 1, .most = 64})) {
    options.connections = static_cast<std::size_t>(*count);
  }
  options.virtual_time = how.virtual_time;
  if (!how.virtual_time) return;
  options.deadline = std::max<std::chrono::nanoseconds>(options.deadline, 5s);
  options.prefix += replay_suffix();
}

int read_database(const StoreUrl& url, std::string_view text) {
  int database = 0;
  if (!read_number(text, database) || database < 0 || database > kMostDatabases) {
    url.fail("a database is a whole number from 0 to " + std::to_string(kMostDatabases));
  }
  return database;
}

// `example` is a URL that names a server.
std::vector<Endpoint> read_servers(StoreUrl& url, bool over_tls, std::uint16_t port,
                                   const std::string& example) {
  std::vector<Endpoint> servers = url.hosts(port);
  const auto tls = read_tls(url, over_tls);
  for (Endpoint& server : servers) server.tls = tls;
  if (servers.empty()) url.fail("it names no server, as in " + example);
  // It is a mistake, and a sentinel would have two votes.
  for (auto server = servers.begin(); server != servers.end(); ++server) {
    if (std::find(servers.begin(), server, *server) == server) continue;
    url.fail("it names " + server->text() + " twice");
  }
  return servers;
}

void read_sentinel_user(StoreUrl& url, RedisOptions& redis) {
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
  redis.user = url.text_option("user").value_or(redis.user);
  redis.password = url.text_option("password").value_or(redis.password);
  if (const auto database = url.whole_option("db", {.least = 0, .most = kMostDatabases})) {
    redis.database = static_cast<int>(*database);
  }
}

bool is_redis_prefix(std::string_view text) {
  return !text.empty() && text.size() <= kMostPrefixBytes && text.find_first_of("{}") == text.npos;
}

}  // namespace

RedisOptions read_redis_url(StoreUrl& url, const StoreOptions& options) {
  RedisOptions redis;
  redis.user = url.user();
  redis.password = url.password();
  const std::string& scheme = url.scheme();
  if (scheme == "unix") {
    read_unix(url, redis);
  } else {
    if (scheme == "redis+sentinel") redis.topology = Topology::kSentinel;
    if (scheme == "redis+cluster") redis.topology = Topology::kCluster;
    const bool tls = redis.topology == Topology::kSingle ? scheme == "rediss" || scheme == "valkeys"
                                                         : url.yes_no_option("tls", false);
    const bool is_sentinel = redis.topology == Topology::kSentinel;
    redis.servers =
        read_servers(url, tls, is_sentinel ? kSentinelPort : kRedisPort, "redis://127.0.0.1:6379");
    if (is_sentinel) read_sentinel_user(url, redis);
    if (redis.topology == Topology::kSingle && redis.servers.size() > 1) {
      url.fail("it names several servers: redis+cluster:// or redis+sentinel:// is meant");
    }
    read_path(url, redis);
  }
  if (!redis.user.empty() && redis.password.empty()) {
    url.fail(
        "it names a user without a password, as in user:password@ before the server or the socket");
  }
  read_common(url, options, is_redis_prefix,
              std::to_string(kMostPrefixBytes) + " bytes and no braces", redis);
  redis.client_time = url.word_option("time", {"server", "client"}).value_or(0) == 1;
  if (const auto skew = url.duration_option("skew", {.least = 1, .most = kDayNs})) {
    redis.skew = std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(*skew));
  }
  url.finish();
  return redis;
}

MemcachedOptions read_memcached_url(StoreUrl& url, const StoreOptions& options) {
  if (!url.user().empty() || !url.password().empty()) {
    url.fail("memcached takes no user and no password");
  }
  if (!url.path().empty() && url.path() != "/") {
    url.fail("nothing can follow the servers but options");
  }
  MemcachedOptions memcached;
  memcached.servers = read_servers(url, url.yes_no_option("tls", false), kMemcachedPort,
                                   "memcached://127.0.0.1:11211");
  read_common(
      url, options, memcached::is_prefix,
      std::to_string(memcached::kMaxPrefixBytes) + " characters from '!' to '~' without ':'",
      memcached);
  url.finish();
  return memcached;
}

}  // namespace sluice

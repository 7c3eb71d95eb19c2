#include "stores/memcached_url.h"

#include <algorithm>

#include "stores/memcached/memcached_space.h"
#include "stores/remote_url.h"

namespace sluice {
namespace {

constexpr std::uint16_t kMemcachedPort = 11211;

void read_servers(StoreUrl& url, memcached::MemcachedOptions& memcached) {
  if (!url.user().empty() || !url.password().empty()) {
    url.fail("memcached takes no user and no password");
  }
  if (!url.path().empty() && url.path() != "/") {
    url.fail("nothing can follow the servers but options");
  }
  const auto tls = read_tls(url, url.yes_no_option("tls", false));
  for (const StoreHost& host : url.hosts(kMemcachedPort)) {
    const Endpoint server{.host = host.host, .port = host.port, .tls = tls};
    if (std::ranges::find(memcached.servers, server) != memcached.servers.end()) {
      url.fail("it names " + server.text() + " twice");
    }
    memcached.servers.push_back(server);
  }
  if (memcached.servers.empty()) url.fail("it names no server, as in memcached://127.0.0.1:11211");
}

}  // namespace

memcached::MemcachedOptions read_memcached_url(StoreUrl& url, const StoreOptions& options) {
  memcached::MemcachedOptions memcached;
  read_servers(url, memcached);
  if (const auto prefix = url.text_option("prefix")) memcached.prefix = *prefix;
  if (!memcached::is_prefix(memcached.prefix)) {
    url.fail("a prefix has 1 to " + std::to_string(memcached::kMaxPrefixBytes) +
             " characters from '!' to '~' without ':'");
  }
  memcached.deadline = read_deadline(url, options);
  memcached.connections = read_connections(url);
  memcached.virtual_time = options.virtual_time;
  if (options.virtual_time) memcached.prefix += replay_suffix();
  url.finish();
  return memcached;
}

}  // namespace sluice

#include "stores/stores.h"

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/near_miss.h"
#include "net/tls_client.h"
#include "sluice/store.h"
#include "stores/memcached/memcached_store.h"
#include "stores/memory/memory_store.h"
#include "stores/redis/redis_store.h"
#include "stores/remote_url.h"

namespace sluice {
namespace {

MemoryOptions read_memory_url(StoreUrl& url, const StoreOptions& options) {
  if (url.has_authority() || !url.path().empty()) {
    url.fail("nothing can follow 'memory:' but options");
  }
  MemoryOptions memory;
  if (options.virtual_time) memory.max_bytes = std::size_t{16} << 30;
  if (options.virtual_time) memory.table.secret = HashSecret::fixed();
  memory.table.forget = !options.virtual_time;
  memory.caller_clock = options.caller_clock;
  if (const auto bytes = url.whole_option("max_bytes", {.least = MemoryStore::kLeastBytes})) {
    memory.max_bytes = static_cast<std::size_t>(*bytes);
  }
  memory.table.allow_when_full = url.word_option("full", {"deny", "allow"}).value_or(0) == 1;
  url.finish();
  return memory;
}

std::shared_ptr<Store> open_memory(StoreUrl& url, const StoreOptions& options) {
  return std::make_shared<MemoryStore>(read_memory_url(url, options));
}

std::shared_ptr<Store> open_redis(StoreUrl& url, const StoreOptions& options) {
  return std::make_shared<redis::RedisStore>(read_redis_url(url, options));
}

std::shared_ptr<Store> open_memcached(StoreUrl& url, const StoreOptions& options) {
  return std::make_shared<memcached::MemcachedStore>(read_memcached_url(url, options));
}

struct Row {
  std::string_view scheme;
  /// See is_remote().
  bool remote;
  /// Reads the options from the URL, finishes it, and only then opens the store.
  std::shared_ptr<Store> (*open)(StoreUrl& url, const StoreOptions& options);
  /// The same without opening it.
  void (*check)(StoreUrl& url);
  /// Throws StoreError where the store keeps no such limit; null where it keeps all.
  void (*check_limit)(const LimitDefinition& limit) = nullptr;
};

void check_memory(StoreUrl& url) {
  read_memory_url(url, {});
}

// For a store on servers.
template <auto read>
void check_servers(StoreUrl& url) {
  const auto options = read(url, {});
  for (const Endpoint& server : options.servers) {
    if (server.tls) const TlsClient usable(server);
  }
}
constexpr auto kCheckRedis = check_servers<read_redis_url>;
constexpr auto kCheckMemcached = check_servers<read_memcached_url>;

// The table of stores. A new store is a folder and one row here for each of its schemes;
// CONTRIBUTING.md lists the rest.
constexpr std::array kStores{
    Row{"memory", false, open_memory, check_memory},
    Row{"redis", true, open_redis, kCheckRedis},
    Row{"rediss", true, open_redis, kCheckRedis},
    Row{"unix", true, open_redis, kCheckRedis},
    Row{"valkey", true, open_redis, kCheckRedis},
    Row{"valkeys", true, open_redis, kCheckRedis},
    Row{"redis+sentinel", true, open_redis, kCheckRedis},
    Row{"redis+cluster", true, open_redis, kCheckRedis},
    Row{"memcached", true, open_memcached, kCheckMemcached, memcached::MemcachedStore::check},
};

const Row& find_row(const StoreUrl& url) {
  std::string schemes;
  std::vector<std::string_view> names;
  for (const Row& row : kStores) {
    if (row.scheme == url.scheme()) return row;
    schemes += " " + std::string(row.scheme) + ":";
    names.push_back(row.scheme);
  }
  url.fail("there is no such store" + suggest_name(url.scheme(), names) + "; there are" + schemes);
}

}  // namespace

bool is_remote(const StoreUrl& url) {
  return find_row(url).remote;
}

std::shared_ptr<Store> open_bare_store(StoreUrl& url, const StoreOptions& options) {
  try {
    return find_row(url).open(url, options);
  } catch (const StoreError&) {
    throw;
  } catch (const TlsError& error) {
    url.fail(error.what());
  } catch (const std::runtime_error& error) {
    url.fail("the system gives it no thread or descriptor: " + std::string(error.what()));
  }
}

std::shared_ptr<Store> open_bare_store(std::string_view text, const StoreOptions& options) {
  StoreUrl url(text);
  return open_bare_store(url, options);
}

void check_bare_store(StoreUrl& url) {
  try {
    find_row(url).check(url);
  } catch (const TlsError& error) {
    url.fail(error.what());
  }
}

void check_limit(const StoreUrl& url, const LimitDefinition& limit) {
  const Row& row = find_row(url);
  if (row.check_limit != nullptr) row.check_limit(limit);
}

}  // namespace sluice

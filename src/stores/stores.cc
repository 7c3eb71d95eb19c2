#include "stores/stores.h"

#include <array>
#include <functional>
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

/// Opens a store with the options that were read from its URL.
using Open = std::function<std::shared_ptr<Store>()>;

Open read_memory(StoreUrl& url, const StoreOptions& options) {
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
  return [memory] { return std::make_shared<MemoryStore>(memory); };
}

// Also checks that the files for TLS can be used.
template <class S, auto read_url>
Open read_remote(StoreUrl& url, const StoreOptions& options) {
  const auto remote = read_url(url, options);
  for (const Endpoint& server : remote.servers) {
    if (server.tls) const TlsClient usable(server);
  }
  return [remote] { return std::make_shared<S>(remote); };
}
constexpr auto kReadRedis = read_remote<redis::RedisStore, read_redis_url>;
constexpr auto kReadMemcached = read_remote<memcached::MemcachedStore, read_memcached_url>;

struct Row {
  std::string_view scheme;
  /// Reads the options from the URL and finishes it, and opens nothing.
  Open (*read)(StoreUrl& url, const StoreOptions& options);
  /// Throws StoreError where the store keeps no such limit; null where it keeps all.
  void (*check_limit)(const LimitDefinition& limit) = nullptr;
};

// The table of stores. A new store is a folder and one row here for each of its schemes;
// CONTRIBUTING.md lists the rest.
constexpr std::array kStores{
    Row{"memory", read_memory},
    Row{"redis", kReadRedis},
    Row{"rediss", kReadRedis},
    Row{"unix", kReadRedis},
    Row{"valkey", kReadRedis},
    Row{"valkeys", kReadRedis},
    Row{"redis+sentinel", kReadRedis},
    Row{"redis+cluster", kReadRedis},
    Row{"memcached", kReadMemcached, memcached::MemcachedStore::check},
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
  return find_row(url).read != read_memory;
}

std::shared_ptr<Store> open_bare_store(StoreUrl& url, const StoreOptions& options) {
  try {
    return find_row(url).read(url, options)();
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
    find_row(url).read(url, {});
  } catch (const TlsError& error) {
    url.fail(error.what());
  }
}

void check_limit(const StoreUrl& url, const LimitDefinition& limit) {
  const Row& row = find_row(url);
  if (row.check_limit != nullptr) row.check_limit(limit);
}

}  // namespace sluice

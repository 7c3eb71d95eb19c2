#include "conformance/every_store.h"

#include <algorithm>
#include <cstdlib>

#include "servers/certificates.h"
#include "servers/memcached_server.h"
#include "servers/redis_cluster.h"
#include "servers/redis_server.h"
#include "stores/stores.h"
#include "testing/snapshots.h"

#ifndef SLUICE_SHARE_OF_CASES
#define SLUICE_SHARE_OF_CASES 1.0
#endif

namespace sluice::conformance {
namespace {

std::function<std::shared_ptr<Store>()> opens(std::string (*url)()) {
  return [url] { return open_bare_store(url(), {.virtual_time = true}); };
}

std::string memory_url() {
  return "memory:";
}

std::shared_ptr<Store> restarted(Store& store, Instant now) {
  const auto again = opens(memory_url)();
  memory::load(dynamic_cast<MemoryStore&>(*again), now,
               memory::written(dynamic_cast<MemoryStore&>(store), now));
  return again;
}

// Each server starts with the first test that uses it, and runs until all tests have ended.
std::string redis() {
  static const servers::RedisServer server;
  return server.url();
}

std::string redis_over_tls() {
  static const servers::RedisServer server({.tls = true});
  return server.url() + "?ca=" + servers::certificates().ca.string();
}

std::string redis_cluster() {
  static const servers::RedisCluster cluster;
  return cluster.url();
}

std::string memcached() {
  static const servers::MemcachedServer server;
  return server.url();
}

// A new store is one more row here.
INSTANTIATE_TEST_SUITE_P(
    Stores, EveryStore,
    testing::Values(StoreCase{.name = "Memory",
                              .open = opens(memory_url),
                              .restart = restarted,
                              .keeps_unread_states = false},
                    StoreCase{.name = "Redis", .open = opens(redis), .share = 0.25},
                    StoreCase{.name = "RedisOverTls", .open = opens(redis_over_tls), .share = 0.05},
                    StoreCase{.name = "RedisCluster",
                              .open = opens(redis_cluster),
                              .share = 0.1,
                              .lists = Lists::kEqualKeys},
                    StoreCase{.name = "Memcached",
                              .open = opens(memcached),
                              .share = 0.1,
                              .lists = Lists::kOne,
                              .most_log = 4'096,
                              .most_permits = 32'768}),
    [](const auto& tested) { return tested.param.name; });

}  // namespace

int scaled(int cases, const StoreCase& store) {
  const char* text = std::getenv("SLUICE_TEST_SCALE");
  const double scale = text == nullptr ? SLUICE_SHARE_OF_CASES : std::atof(text);
  // RapidCheck begins with the smallest case, which is empty.
  return std::max(4, static_cast<int>(cases * scale * store.share));
}

}  // namespace sluice::conformance

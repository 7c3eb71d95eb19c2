#include "stores/redis/redis_store.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "algorithms/check_together.h"
#include "algorithms/limit_definition.h"
#include "stores/redis/sweep.h"

namespace sluice::redis {

RedisStore::RedisStore(RedisOptions options)
    : RemoteStore("redis", options.servers, options.deadline, options.prefix),
      options_(std::move(options)),
      router_(make_router(options_, worker())),
      subscriber_(options_, worker(), *router_) {
  worker().start(*router_);
}

RedisStore::~RedisStore() {
  if (options_.virtual_time) {
    std::string begin;
    append_encoded(begin, options_.prefix);
    sweep(worker(), *router_, begin + ':');
  }
  worker().stop();
}

std::unique_ptr<Watch> RedisStore::watch(const std::shared_ptr<Space>& space, std::string_view key,
                                         std::function<void()> released) {
  return subscriber_.watch(redis_key(*space, key), std::move(released));
}

void RedisStore::check_together(std::span<const Request> requests) const {
  sluice::check_together(requests);
  if (!router_->is_cluster()) return;
  const auto slot = [](const Request& one) { return slot_of(redis_key(*one.space, one.key)); };
  const std::uint16_t first = slot(requests.front());
  if (!std::ranges::all_of(requests, [&](const Request& one) { return slot(one) == first; })) {
    throw std::invalid_argument(
        "keys that are asked together on a cluster must share a slot, as equal keys do");
  }
}

}  // namespace sluice::redis

#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "algorithms/check_together.h"
#include "core/store.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/redis_router.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/subscriber.h"
#include "stores/remote/remote_store.h"

namespace sluice::redis {

/// Keys in Redis 5 or later, or a server that speaks and behaves like it: one string a key, changed
/// by one script in one round trip.
///
/// On a cluster, decide_all() and submit() also throw std::invalid_argument if requests that are
/// asked together do not share a slot.
///
/// Thread-safe. Callers share the connections: requests that arrive while a connection is busy are
/// sent together, in one call of the script.
class RedisStore final : public RemoteStore<RedisSpace> {
 public:
  explicit RedisStore(RedisOptions options)
      : RemoteStore("redis", options.servers, options.deadline, options.prefix),
        options_(std::move(options)),
        router_(make_router(options_, worker())),
        subscriber_(options_, worker(), *router_) {
    worker().start(*router_);
  }
  /// In virtual time, first removes the keys under the prefix: see sweep().
  ~RedisStore() override {
    if (options_.virtual_time) {
      std::string begin;
      append_encoded(begin, options_.prefix);
      sweep(worker(), *router_, begin + ':');
    }
    worker().stop();
  }

  /// `released` is called on the thread that leads the RemoteWorker, which all decisions of the
  /// store wait for: it must not block. It is also called when the subscription begins, and when it
  /// begins again after the connection was lost, because releases before that were missed. A watch
  /// may outlive the store.
  Watch watch(const std::shared_ptr<Space>& space, std::string_view key,
              std::function<void()> released) override {
    return subscriber_.watch(redis_key(*space, key), std::move(released));
  }

 private:
  void check_together(std::span<const Request> requests) const override {
    sluice::check_together(requests);
    if (!router_->is_cluster()) return;
    const auto slot = [](const Request& one) { return slot_of(redis_key(*one.space, one.key)); };
    const std::uint16_t first = slot(requests.front());
    if (!std::ranges::all_of(requests, [&](const Request& one) { return slot(one) == first; })) {
      throw std::invalid_argument(
          "keys that are asked together on a cluster must share a slot, as equal keys do");
    }
  }

  const RedisOptions options_;
  const std::unique_ptr<RedisRouter> router_;
  Subscriber subscriber_;
};

}  // namespace sluice::redis

#pragma once

#include <memory>
#include <string_view>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "servers/memcached_server.h"
#include "sluice/limit.h"
#include "stores/memcached/memcached_options.h"

namespace sluice::memcached {

// For this room's tests: one limit open in one store on real servers, asked by key.

/// A whole minute.
inline constexpr Instant kNow = 1'700'000'040 * kSecondNs;

inline MemcachedOptions options(
    std::initializer_list<const servers::MemcachedServer*> all_servers) {
  MemcachedOptions options;
  for (const auto* server : all_servers) {
    options.servers.push_back({.host = "127.0.0.1", .port = server->port()});
  }
  options.deadline = std::chrono::seconds(5);
  return options;
}

class Keys {
 public:
  Keys(Store& store, std::string_view expression, std::string_view name = "login")
      : store_(store), limit_(expression, name), space_(store.open_space(limit_.definition())) {}

  /// `key` has to outlive the request.
  Request request(std::string_view key, std::int64_t cost = 1,
                  Operation operation = Operation::kTake) const {
    return {.limit = &limit_.definition(),
            .space = space_.get(),
            .key = key,
            .operation = operation,
            .cost = cost};
  }

  Request block(std::string_view key, std::int64_t duration_ns) const {
    Request asked = request(key, 1, Operation::kBlock);
    asked.duration_ns = duration_ns;
    return asked;
  }
  Request lend(std::string_view key, PermitId permit, Operation operation) const {
    Request asked = request(key, 1, operation);
    asked.permit = permit;
    return asked;
  }

  /// All throw StoreError where it is not answered.
  Decision ask(const Request& request, Instant now) {
    Decision decision;
    store_.decide({&request, 1}, now, {&decision, 1});
    return decision;
  }
  Decision take(std::string_view key, std::int64_t cost = 1, Instant now = kNow) {
    return ask(request(key, cost), now);
  }
  Decision reset(std::string_view key, Instant now = kNow) {
    return ask(request(key, 1, Operation::kReset), now);
  }

 private:
  Store& store_;
  Limit limit_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice::memcached

#include "stores/memcached/memcached_store.h"

#include <stdexcept>
#include <utility>

#include "algorithms/check_together.h"
#include "algorithms/limit_definition.h"

namespace sluice::memcached {
namespace {

// The most entries that a key's value keeps, for algorithms with an entry for each unit or permit.
std::int64_t kept_one_by_one(const LimitDefinition& limit) {
  std::int64_t entries = 0;
  for (const auto& part : limit.parts) {
    entries += std::visit(
        []<class P>(const P& p) -> std::int64_t {
          if constexpr (requires { P::Algorithm::kMaxLimit; }) {
            return p.params.limit;
          } else {
            return 0;
          }
        },
        part);
  }
  return entries;
}

}  // namespace

void MemcachedStore::check(const LimitDefinition& limit) {
  const std::int64_t kept = kept_one_by_one(limit);
  if (kept > kMaxKept) {
    const bool permits = lends(limit);
    throw StoreError("memcached store: '" + limit.expression + "' keeps up to " +
                     std::to_string(kept) + (permits ? " permits" : " admitted instants") +
                     " for a key, but at most " + std::to_string(kMaxKept) + " fit into a value" +
                     (permits ? "" : " (sliding_window has no such bound)"));
  }
}

MemcachedStore::MemcachedStore(MemcachedOptions options)
    : RemoteStore("memcached", options.servers, options.deadline, options.prefix),
      options_(std::move(options)),
      executor_(options_, worker()) {
  for (const auto& connection : executor_.connections()) connection->start();
  worker().start(executor_);
}

std::shared_ptr<Space> MemcachedStore::replace_space(const std::shared_ptr<Space>& held,
                                                     const LimitDefinition& limit) {
  check(limit);
  return RemoteStore::replace_space(held, limit);
}

void MemcachedStore::check_together(std::span<const Request> requests) const {
  sluice::check_together(requests);
  if (requests.size() == 1) return;
  throw std::invalid_argument(
      "on Memcached only one limit and key can be taken from in one step, not " +
      std::to_string(requests.size()) +
      ": each is a value of its own (limits that are joined by '&' are one)");
}

}  // namespace sluice::memcached

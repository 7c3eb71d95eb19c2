#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

#include "algorithms/check_together.h"
#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "stores/memcached/cas_executor.h"
#include "stores/memcached/memcached_options.h"
#include "stores/memcached/memcached_space.h"
#include "stores/remote/remote_store.h"

namespace sluice::memcached {

/// Keys in memcached 1.6.13 or later: each key's state is one value, changed by compare-and-swap,
/// so any number of processes together decide exactly as one would. Instants are those of the
/// processes' clocks.
///
/// Thread-safe. All callers share the connections, and callers who ask for one key at the same time
/// share the rounds it takes.
class MemcachedStore final : public RemoteStore<MemcachedSpace> {
 public:
  /// The most permits of a limit, and entries of all its sliding logs, so that its value fits into
  /// an item.
  static constexpr std::int64_t kMaxKept = 32'768;
  /// Throws StoreError where a limit exceeds that.
  static void check(const LimitDefinition& limit) {
    const std::int64_t kept = kept_one_by_one(limit);
    if (kept <= kMaxKept) return;
    const bool permits = lends(limit);
    throw StoreError("memcached store: '" + limit.expression + "' keeps up to " +
                     std::to_string(kept) + (permits ? " permits" : " admitted instants") +
                     " for a key, but at most " + std::to_string(kMaxKept) + " fit into a value" +
                     (permits ? "" : " (sliding_window has no such bound)"));
  }

  explicit MemcachedStore(MemcachedOptions options)
      : RemoteStore("memcached", options.servers, options.deadline, options.prefix),
        options_(std::move(options)),
        executor_(options_, worker()) {
    for (const auto& connection : executor_.connections()) connection->start();
    worker().start(executor_);
  }
  ~MemcachedStore() override { worker().stop(); }

  /// Also throws StoreError if the limit's value could be larger than a server accepts.
  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override {
    check(limit);
    return RemoteStore::replace_space(held, limit);
  }

 private:
  /// The most entries that a key's value keeps, for algorithms with an entry for each unit or
  /// permit.
  static std::int64_t kept_one_by_one(const LimitDefinition& limit) {
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

  void check_together(std::span<const Request> requests) const override {
    sluice::check_together(requests);
    if (requests.size() == 1) return;
    throw std::invalid_argument(
        "on Memcached only one limit and key can be taken from in one step, not " +
        std::to_string(requests.size()) +
        ": each is a value of its own (limits that are joined by '&' are one)");
  }

  const MemcachedOptions options_;
  CasExecutor executor_;
};

}  // namespace sluice::memcached

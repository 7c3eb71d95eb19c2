#pragma once

#include <memory>
#include <span>

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
  static void check(const LimitDefinition& limit);

  explicit MemcachedStore(MemcachedOptions options);
  ~MemcachedStore() override { worker().stop(); }

  /// Also throws StoreError if the limit's value could be larger than a server accepts.
  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;

 private:
  void check_together(std::span<const Request> requests) const override;

  const MemcachedOptions options_;
  CasExecutor executor_;
};

}  // namespace sluice::memcached

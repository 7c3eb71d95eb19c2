#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "core/store.h"
#include "protocols/resp/varying_limit.h"
#include "service/recent_cache.h"

namespace sluice::resp {

/// The numbers of an INCREX: at most `bound` per period.
struct IncrexNumbers {
  std::int64_t bound = 1;
  std::int64_t period_ns = 1;

  friend bool operator==(const IncrexNumbers&, const IncrexNumbers&) = default;
};

/// The spaces of INCREX, one for each period that clients have sent: a key with another period is
/// another key. All threads share them, so that DEL finds every key. Thread-safe.
class IncrexPeriods {
 public:
  static constexpr std::size_t kMaxPeriods = 30;

  /// The store outlives this.
  explicit IncrexPeriods(Store& store) : store_(store) {}

  /// The space of a period. Throws StoreError if the store cannot open it, or if there are
  /// kMaxPeriods others.
  std::shared_ptr<Space> open(std::int64_t period_ns);

  /// One limit of each space. Their addresses do not change.
  std::span<const std::shared_ptr<const VaryingLimit>> all() const {
    return {limits_.data(), size_.load(std::memory_order_acquire)};
  }

 private:
  Store& store_;
  std::mutex mutex_;  // Held while a limit is added.
  std::array<std::shared_ptr<const VaryingLimit>, kMaxPeriods> limits_;
  std::atomic<std::size_t> size_ = 0;
};

/// The limits of INCREX, whose numbers are in each command. Those used lately are remembered. Not
/// thread-safe: each thread has its own.
class IncrexLimits {
 public:
  /// `periods` outlive this.
  explicit IncrexLimits(IncrexPeriods& periods) : periods_(periods) {}

  /// The limit `fixed_window bound/period anchor=first`, valid for at least the next 64 calls.
  /// REQUIRES: bound is 1 to kMaxCount, period_ns 1 to kMaxDurationNs. Throws as
  /// IncrexPeriods::open().
  const std::shared_ptr<const VaryingLimit>& find(const IncrexNumbers& numbers);

 private:
  struct Hash {
    std::size_t operator()(const IncrexNumbers& numbers) const {
      return std::hash<std::int64_t>{}(numbers.bound ^ numbers.period_ns);
    }
  };

  RecentCache<IncrexNumbers, std::shared_ptr<const VaryingLimit>, 64, Hash> limits_;
  IncrexPeriods& periods_;
};

}  // namespace sluice::resp

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "core/arithmetic.h"
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

/// What all INCREX of one period share.
struct IncrexPeriod {
  /// The limit of the largest bound there is, in the space of the period: a peek under it tells any
  /// count.
  std::shared_ptr<const VaryingLimit> widest;
  /// No key has counted more.
  std::atomic<std::int64_t> most = 0;
};

/// The spaces of INCREX, one for each period that clients have sent: a key with another period is
/// another key. All threads share them, so that DEL finds every key. Thread-safe.
class IncrexPeriods {
 public:
  static constexpr std::size_t kMaxPeriods = 30;

  /// The store outlives this. If it is not empty, its keys may have counted anything.
  explicit IncrexPeriods(Store& store)
      : store_(store), most_before_(store.count_keys() == 0U ? 0 : kMaxCount) {}

  /// The period, in which keys may count up to the bound from now on. Throws StoreError if the
  /// store cannot open its space, or if there are kMaxPeriods others.
  const IncrexPeriod& open(const IncrexNumbers& numbers);

  /// Their addresses do not change.
  std::span<const IncrexPeriod> all() const {
    return {periods_.data(), size_.load(std::memory_order_acquire)};
  }

 private:
  Store& store_;
  const std::int64_t most_before_;
  std::mutex mutex_;  // Held while a period is added.
  std::array<IncrexPeriod, kMaxPeriods> periods_;
  std::atomic<std::size_t> size_ = 0;
};

/// A limit of INCREX.
struct IncrexLimit {
  std::shared_ptr<const VaryingLimit> limit;
  const IncrexPeriod* period = nullptr;
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
  const IncrexLimit& find(const IncrexNumbers& numbers);

 private:
  struct Hash {
    std::size_t operator()(const IncrexNumbers& numbers) const {
      return std::hash<std::int64_t>{}(numbers.bound ^ numbers.period_ns);
    }
  };

  RecentCache<IncrexNumbers, IncrexLimit, 64, Hash> limits_;
  IncrexPeriods& periods_;
};

}  // namespace sluice::resp

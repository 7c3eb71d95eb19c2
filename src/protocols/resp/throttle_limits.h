#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "limiter/recent_cache.h"

namespace sluice::resp {

/// The numbers of a CL.THROTTLE, as sent.
struct ThrottleNumbers {
  std::int64_t max_burst = 0;
  std::int64_t count = 0;
  std::int64_t period_s = 0;

  friend bool operator==(const ThrottleNumbers&, const ThrottleNumbers&) = default;
};

/// The sentence that says which of the numbers cannot be, or nothing where all can.
std::optional<std::string_view> find_fault(const ThrottleNumbers& numbers);

/// The token bucket count/period with a capacity of max_burst + 1, in kThrottleSpace.
/// REQUIRES: find_fault(numbers) finds none.
LimitDefinition define_throttle(const ThrottleNumbers& numbers);

/// The limits of CL.THROTTLE, which come with each call: those used lately are remembered, and all
/// share one space. Not thread-safe: each thread has its own.
class ThrottleLimits {
 public:
  /// The store outlives this. Throws StoreError where it cannot open the space.
  explicit ThrottleLimits(Store& store);

  const std::shared_ptr<Space>& space() const { return space_; }

  /// The limit, valid for at least the next 512 calls; or null where find_fault() finds one.
  /// Throws StoreError where the store cannot open the space.
  const LimitDefinition* find(const ThrottleNumbers& numbers) {
    return numbers == last_numbers_ ? last_ : look_up(numbers);
  }

 private:
  struct Hash {
    std::size_t operator()(const ThrottleNumbers& numbers) const;
  };

  const LimitDefinition* look_up(const ThrottleNumbers& numbers);

  RecentCache<ThrottleNumbers, LimitDefinition, 512, Hash> limits_;
  /// The last found, which the cache therefore still holds: most clients ask for one limit only.
  /// Zeros are no limit, as find() must say from the start.
  ThrottleNumbers last_numbers_;
  const LimitDefinition* last_ = nullptr;
  Store& store_;
  std::shared_ptr<Space> space_;
};

}  // namespace sluice::resp

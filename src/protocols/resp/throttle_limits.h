#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "protocols/resp/varying_limit.h"
#include "service/recent_cache.h"

namespace sluice::resp {

/// The numbers of a CL.THROTTLE, as sent.
struct ThrottleNumbers {
  std::int64_t max_burst = 0;
  std::int64_t count = 0;
  std::int64_t period_s = 0;

  friend bool operator==(const ThrottleNumbers&, const ThrottleNumbers&) = default;
};

/// The sentence that says which of the numbers is invalid, or nothing where all are valid.
std::optional<std::string_view> find_error(const ThrottleNumbers& numbers);

/// The token bucket count/period with a capacity of max_burst + 1, in kThrottleSpace.
/// REQUIRES: find_error(numbers) finds none.
LimitDefinition define_throttle(const ThrottleNumbers& numbers);

/// The limits of CL.THROTTLE, which come with each call: those used lately are remembered, and all
/// share one space. Not thread-safe: each thread has its own.
class ThrottleLimits {
 public:
  /// The store outlives this. Throws StoreError where it cannot open the space.
  explicit ThrottleLimits(Store& store);

  /// The limit, valid for at least the next 512 calls; or null where find_error() finds one.
  /// Throws StoreError where the store cannot open the space.
  const std::shared_ptr<const VaryingLimit>* find(const ThrottleNumbers& numbers);

  /// A limit of the space, for what is asked of a key whatever its numbers are: whether it has a
  /// state, and to forget it.
  const std::shared_ptr<const VaryingLimit>& any() const { return any_; }

 private:
  struct Hash {
    std::size_t operator()(const ThrottleNumbers& numbers) const;
  };

  RecentCache<ThrottleNumbers, std::shared_ptr<const VaryingLimit>, 512, Hash> limits_;
  Store& store_;
  const std::shared_ptr<const VaryingLimit> any_;  // Holds the space, so that it stays the same.
};

}  // namespace sluice::resp

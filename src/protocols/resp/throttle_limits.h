#pragma once

#include <cstddef>
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

/// A sentence that says which of the numbers is invalid; nothing if all are valid.
std::optional<std::string_view> find_error(const ThrottleNumbers& numbers);

/// The token bucket count/period with a capacity of max_burst + 1, in kThrottleSpace. REQUIRES:
/// find_error(numbers) returns nothing.
LimitDefinition define_throttle(const ThrottleNumbers& numbers);

/// The limits of CL.THROTTLE, whose numbers are in each command. Those used lately are remembered;
/// all share one space. Not thread-safe: each thread has its own.
class ThrottleLimits {
 public:
  /// The store must outlive this. Throws StoreError if it cannot open the space.
  explicit ThrottleLimits(Store& store);

  /// The limit if it is remembered, otherwise null. What find() and make() return is valid for at
  /// least their next 512 calls.
  const std::shared_ptr<const VaryingLimit>* find(const ThrottleNumbers& numbers) {
    return limits_.find(numbers);
  }

  /// Makes a limit that is not remembered, and remembers it. REQUIRES: find_error(numbers) returns
  /// nothing.
  const std::shared_ptr<const VaryingLimit>& make(const ThrottleNumbers& numbers);

  /// A limit of the space, for requests that do not depend on the numbers: whether a key has a
  /// state, and to forget it.
  const std::shared_ptr<const VaryingLimit>& any() const { return any_; }

 private:
  struct Hash {
    std::size_t operator()(const ThrottleNumbers& numbers) const;
  };

  RecentCache<ThrottleNumbers, std::shared_ptr<const VaryingLimit>, 512, Hash> limits_;
  const std::shared_ptr<const VaryingLimit> any_;  // Holds the space, which all share.
};

}  // namespace sluice::resp

#pragma once

#include <cstdint>

namespace sluice::bench {

/// Independent callers of one server; each requests its next decision when it has the one before.
class Load {
 public:
  virtual ~Load() = default;

  /// Returns once each caller has had `decisions_per_caller` decisions, which must all be
  /// admissions. Throws std::runtime_error with one sentence if one is not.
  virtual void run(std::uint64_t decisions_per_caller) = 0;
};

}  // namespace sluice::bench

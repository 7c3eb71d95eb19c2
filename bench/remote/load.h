#pragma once

#include <cstdint>

namespace sluice::bench {

/// Callers that do not wait for each other, all on one server: each asks for its next decision when
/// it has the one before.
class Load {
 public:
  virtual ~Load() = default;

  /// Returns once each caller has had so many decisions, all of them admissions. Throws
  /// std::runtime_error, one sentence, where one was not.
  virtual void run(std::uint64_t decisions_per_caller) = 0;
};

}  // namespace sluice::bench

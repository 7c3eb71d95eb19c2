#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "remote/load.h"

namespace sluice::bench {

/// Callers with a thread each, which wait for every answer.
class Threads final : public Load {
 public:
  /// Makes one decision; throws std::exception if it is not an admission. Called by one thread at a
  /// time.
  using Ask = std::function<void()>;

  explicit Threads(std::vector<Ask> callers) : callers_(std::move(callers)) {}

  void run(std::uint64_t decisions_per_caller) override;

 private:
  std::vector<Ask> callers_;
};

}  // namespace sluice::bench

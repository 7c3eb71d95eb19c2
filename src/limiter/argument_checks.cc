#include "limiter/argument_checks.h"

#include <stdexcept>
#include <string>

#include "core/instant.h"

namespace sluice {

void refuse_units(std::string_view what, std::int64_t units) {
  throw std::invalid_argument(std::string(what) + " is at least 0, not " + std::to_string(units));
}

void require_patience(std::chrono::nanoseconds patience) {
  if (patience.count() >= 0) return;
  throw std::invalid_argument("a patience is at least 0 ns, not " +
                              std::to_string(patience.count()));
}

void require_block_duration(std::chrono::nanoseconds duration) {
  if (duration.count() >= 1 && duration.count() <= kMaxDurationNs) return;
  throw std::invalid_argument("a block lasts from 1 to " + std::to_string(kMaxDurationNs) +
                              " ns, not " + std::to_string(duration.count()));
}

}  // namespace sluice

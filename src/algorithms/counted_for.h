#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <span>

#include "algorithms/limit_definition.h"
#include "core/batch.h"
#include "sluice/decision.h"

namespace sluice {

/// For how long each part of a limit counts the units that a request has taken.
class CountedFor {
 public:
  CountedFor() = default;
  /// `parts`: the decisions of the parts; empty if the limit has one, to which `answer` belongs.
  CountedFor(const Decision& answer, std::span<const Decision> parts) {
    if (parts.empty()) parts = {&answer, 1};
    for (const Decision& part : parts) times_[parts_++] = part.reset_after;
  }

  /// Of how many parts a request to this limit wants the decisions.
  static std::size_t parts_of(const LimitDefinition& limit) {
    return limit.parts.size() > 1 ? limit.parts.size() : 0;
  }

  /// Keeps a refund of these units from the parts that do not count them any more, since others may
  /// have taken as many: if no part does, its cost becomes 0. `age` is the time since the units
  /// were asked for; counted from the answer on, it would be too short.
  void restrict_refund(Request& refund, std::chrono::nanoseconds age) const {
    bool is_counted = false;
    for (std::size_t i = 0; i < parts_; ++i) {
      if (age < times_[i]) {
        is_counted = true;
      } else {
        refund.uncounted_parts |= static_cast<std::uint8_t>(1U << i);
      }
    }
    if (!is_counted) refund.cost = 0;
  }

 private:
  std::array<std::chrono::nanoseconds, kMaxParts> times_{};
  std::size_t parts_ = 0;
};

}  // namespace sluice

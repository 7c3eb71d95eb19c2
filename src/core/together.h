#pragma once

#include <algorithm>

#include "sluice/decision.h"

namespace sluice {

/// Combines the decisions of several parts or requests that are decided together, all or nothing:
/// add() each decision. If one denies, the decisions of the others must be those of a peek, since
/// nothing is charged.
class Together {
 public:
  void add(const Decision& one) {
    if (first_ || one.remaining < all_.remaining) {
      all_.limit = one.limit;
      all_.remaining = one.remaining;
    }
    all_.retry_after = std::max(all_.retry_after, one.retry_after);
    all_.allowed = (first_ || all_.allowed) && one.allowed;
    all_.reset_after = std::max(all_.reset_after, one.reset_after);
    all_.delay = std::max(all_.delay, one.delay);
    if (one.source != Source::kStore) all_.source = one.source;
    first_ = false;
  }

  Decision decision() const {
    Decision result = all_;
    if (!result.allowed) result.delay = std::chrono::nanoseconds(0);
    return result;
  }

 private:
  Decision all_;
  bool first_ = true;
};

}  // namespace sluice

#pragma once

#include <algorithm>
#include <cstdint>

#include "sluice/decision.h"

namespace sluice {

/// Combines the decisions of several parts or requests that are decided together, all or nothing:
/// add() each decision. If one denies, the decisions of the others must be those of a peek, since
/// nothing is charged. The result is that of the binding one (see Decision::binding), with the
/// longest delay; if one has a source other than the store, with that source.
class Together {
 public:
  void add(const Decision& one) {
    const auto delay = std::max(all_.delay, one.delay);
    const Source source = one.source == Source::kStore ? all_.source : one.source;
    if (count_ == 0 || binds(one)) {
      all_ = one;
      all_.binding = count_;
    }
    all_.delay = delay;
    all_.source = source;
    ++count_;
  }

  Decision decision() const {
    Decision result = all_;
    if (!result.allowed) result.delay = std::chrono::nanoseconds(0);
    return result;
  }

 private:
  // Whether it binds more than all before it.
  bool binds(const Decision& one) const {
    if (one.allowed) return all_.allowed && one.remaining < all_.remaining;
    return all_.allowed || one.retry_after > all_.retry_after;
  }

  Decision all_;
  std::uint8_t count_ = 0;
};

}  // namespace sluice

#pragma once

#include <cstddef>
#include <vector>

#include "conformance/scenario.h"

namespace sluice::conformance {

/// An event before its instant and its permit are settled.
struct Draft {
  Event event;
  bool astray = false;
  /// Which permit is renewed or given back.
  std::size_t choice = 0;
};

/// Puts the instants that are not astray in order, gives those that are together one, and names
/// permits.
std::vector<Event> settled(std::vector<Draft> drafts);

}  // namespace sluice::conformance

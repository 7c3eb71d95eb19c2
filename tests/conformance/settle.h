#pragma once

#include <cstddef>
#include <vector>

#include "conformance/scenario.h"

namespace sluice::conformance {

/// An event whose instant and permit are not determined yet.
struct Draft {
  Event event;
  bool astray = false;
  /// Selects the permit to renew or release.
  std::size_t choice = 0;
};

/// Sorts the instants that are meant to be in order, gives events that are together the same
/// instant, and chooses permits.
std::vector<Event> settled(std::vector<Draft> drafts);

}  // namespace sluice::conformance

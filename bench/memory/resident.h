#pragma once

#include <cstddef>

namespace sluice::bench {

/// The physical memory of this process.
struct Resident {
  std::size_t bytes = 0;
  /// The part of them in huge pages.
  std::size_t huge_bytes = 0;
};

/// Reads /proc/self/smaps_rollup; zeros if it does not exist.
Resident read_resident();

}  // namespace sluice::bench

#pragma once

#include <cstddef>

namespace sluice::bench {

/// Physical memory this process holds.
struct Resident {
  std::size_t bytes = 0;
  /// Of these, in huge pages.
  std::size_t huge_bytes = 0;
};

/// As the kernel tells it in /proc/self/smaps_rollup; zeros where it does not.
Resident read_resident();

}  // namespace sluice::bench

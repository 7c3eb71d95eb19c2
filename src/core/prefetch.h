#pragma once

#include <cstddef>

namespace sluice {

/// Prefetches `bytes` bytes that will be read or written soon. The address need not be valid.
inline void prefetch(const void* begin, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) {
    __builtin_prefetch(static_cast<const char*>(begin) + at, 1);
  }
}

}  // namespace sluice

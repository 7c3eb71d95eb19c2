// For a program of tests of its own, in one file of it: the system has no memory. Replaces operator
// new.

#pragma once

#include <cstddef>
#include <cstdlib>
#include <limits>
#include <new>

namespace sluice {

inline constexpr std::size_t kNoneRefused = std::numeric_limits<std::size_t>::max();

/// Allocations of so many bytes or more fail, on this thread.
inline thread_local constinit std::size_t refused_bytes = kNoneRefused;

}  // namespace sluice

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return bytes < sluice::refused_bytes ? std::malloc(bytes) : nullptr;
}
void* operator new(std::size_t bytes) {
  void* const place = operator new(bytes, std::nothrow);
  if (place == nullptr) throw std::bad_alloc();
  return place;
}
void operator delete(void* place) noexcept {
  std::free(place);
}
void operator delete(void* place, std::size_t) noexcept {
  std::free(place);
}

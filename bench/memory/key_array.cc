#include "memory/key_array.h"

namespace sluice::bench {
namespace {

constexpr std::size_t kLeastBytes = 16;
constexpr std::size_t kSpareBytes = 9;

/// SplitMix64's finaliser: a permutation of 64-bit numbers, so distinct numbers stay distinct.
std::uint64_t mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EB;
  return z ^ (z >> 31);
}

}  // namespace

KeyArray::KeyArray(std::size_t count) {
  assert(count >= 1 && count <= 100'000'000);
  constexpr std::string_view kDigits = "0123456789abcdef";
  text_.reserve(count * (kLeastBytes + kSpareBytes / 2 + 1));
  begins_.reserve(count + 1);
  begins_.push_back(0);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t number = mix(i);
    for (int shift = 60; shift >= 0; shift -= 4) text_.push_back(kDigits[(number >> shift) & 15]);
    for (std::uint64_t spare = number % kSpareBytes; spare > 0; --spare) text_.push_back('.');
    begins_.push_back(static_cast<std::uint32_t>(text_.size()));
  }
}

}  // namespace sluice::bench

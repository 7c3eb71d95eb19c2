#pragma once

#include <compare>
#include <cstdint>

#include "core/hash_secret.h"

namespace sluice {

/// Identifies a key of a FallbackStore: the number of its space, and its hash.
struct KeyName {
  std::uint64_t space = 0;
  KeyHash key;

  auto operator<=>(const KeyName&) const = default;
};

}  // namespace sluice

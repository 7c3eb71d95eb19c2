#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "algorithms/state_codec.h"
#include "core/limit_syntax.h"
#include "stores/memory/judge.h"

namespace sluice::memory {

/// A key's states as in a snapshot: without pointers, and independent of how a cell packs them. Can
/// be used for one key after the other.
struct KeyImage {
  /// The end of the key's block, or 0.
  Instant blocked_until = 0;
  std::array<PartImage, kMaxParts> parts;
};

/// Appends the states of a key that is judged by these parts.
void write_key(Parts parts, Cell key, ByteWriter& output);

/// Reads what write_key() wrote. Returns false if it cannot be the states of such a key.
bool read_key(Parts parts, ByteReader& input, KeyImage& image);

/// A cell with these states. Returns false if there is no room; `key` is then 0.
bool make_key(Records& records, Parts parts, const KeyImage& image, Cell& key);

/// About the bytes that make_key() allocates, without records of `least_large` bytes or more.
std::size_t image_bytes(Parts parts, const KeyImage& image, std::size_t least_large = SIZE_MAX);

}  // namespace sluice::memory

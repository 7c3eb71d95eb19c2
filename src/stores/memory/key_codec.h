#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/limit_syntax.h"
#include "core/permits.h"
#include "core/ring.h"
#include "stores/memory/judge.h"

namespace sluice::memory {

static_assert(std::endian::native == std::endian::little, "snapshots hold numbers as they are");

/// Appends numbers to a string, lowest byte first.
class ByteWriter {
 public:
  explicit ByteWriter(std::string& output) : output_(output) {}

  template <class T>
  requires std::is_trivially_copyable_v<T>
  void put(const T& value) { output_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  template <class T>
  requires std::is_trivially_copyable_v<T>
  void array(std::span<const T> values) {
    output_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
  }
  void text(std::string_view text) {
    put(static_cast<std::uint32_t>(text.size()));
    output_ += text;
  }

 private:
  std::string& output_;
};

/// Reads from the front of some bytes what ByteWriter wrote. If too few bytes are left, failed() is
/// true and all results are 0.
class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  requires std::is_trivially_copyable_v<T> T take() {
    T value{};
    if (const std::string_view bytes = take_bytes(sizeof value); !bytes.empty()) {
      std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
    }
    return value;
  }
  std::string_view text() { return take_bytes(take<std::uint32_t>()); }
  /// Reads a number of elements, each of which takes at least `bytes_each` bytes.
  std::uint32_t count(std::size_t bytes_each) {
    const auto number = take<std::uint32_t>();
    return number <= rest_.size() / bytes_each ? number : fail();
  }

  bool empty() const { return rest_.empty(); }
  bool failed() const { return failed_; }

 private:
  std::string_view take_bytes(std::size_t count) {
    if (count > rest_.size()) count = fail();
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  std::uint32_t fail() {
    failed_ = true;
    rest_ = {};
    return 0;
  }

  std::string_view rest_;
  bool failed_ = false;
};

/// The state of one part of a limit: integers, or the entries of a ring, or permits.
struct PartImage {
  std::array<std::int64_t, 3> numbers{};
  std::vector<RingEntry> entries;
  std::vector<PermitEntry> permits;
};

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

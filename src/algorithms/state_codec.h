#pragma once

#include <algorithm>
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

#include "algorithms/bucket.h"
#include "core/arithmetic.h"
#include "core/instant.h"
#include "core/permits.h"
#include "core/ring.h"

namespace sluice {

// How the states of keys are written as bytes: in a snapshot, and in a value on Memcached.

static_assert(std::endian::native == std::endian::little, "the bytes hold numbers as they are");

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

/// How many integers a state of fixed size is.
template <class State>
constexpr std::size_t number_count() {
  static_assert(std::is_trivially_copyable_v<State>);
  static_assert(std::has_unique_object_representations_v<State>);
  static_assert(sizeof(State) % sizeof(std::int64_t) == 0);
  static_assert(sizeof(State) <= sizeof PartImage::numbers);
  return sizeof(State) / sizeof(std::int64_t);
}

/// The state that these integers are.
template <class State>
State state_of_numbers(const PartImage& image) {
  static_assert(number_count<State>() > 0);
  State state;
  std::memcpy(static_cast<void*>(&state), image.numbers.data(), sizeof state);
  return state;
}

/// The largest number in a state of A: charges move the instant of a bucket as far as its bits
/// allow; the numbers of all others are instants and counts.
template <class A>
inline constexpr std::int64_t kLargestNumber =
    std::is_same_v<typename A::State, BucketState> ? kMaxInt64 : kEndOfTime - 1;

/// Whether these can be the entries of a ring, and the permits of a list: searches rely on it that
/// stamps increase and that no entry is empty.
bool is_ring(const std::vector<RingEntry>& entries);
bool is_permit_list(const std::vector<PermitEntry>& permits);

/// Appends the state of a part by A.
template <class A>
void write_part(const typename A::State& state, ByteWriter& output) {
  if constexpr (kIsRing<A>) {
    output.put(state.size);
    output.put(state.base);
    // From the oldest to the end of the slots, and then from their begin.
    const std::uint32_t first = std::min(state.size, state.capacity - state.head);
    output.array(std::span(state.slots + state.head, first));
    output.array(std::span(state.slots, state.size - first));
  } else if constexpr (kIsPermits<A>) {
    output.put(static_cast<std::uint32_t>(state.size()));
    output.array(state);
  } else {
    static_assert(number_count<typename A::State>() > 0);
    output.put(state);
  }
}

/// Reads what write_part() wrote. Returns false if it cannot be such a state; if it is too short,
/// the reader has failed.
template <class A>
bool read_part(ByteReader& input, PartImage& image) {
  if constexpr (kIsRing<A>) {
    image.entries.resize(input.count(sizeof(RingEntry)));
    const auto base = input.take<std::uint64_t>();
    for (RingEntry& entry : image.entries) {
      entry = input.take<RingEntry>();
      entry.total -= base;
    }
    return is_ring(image.entries);
  } else if constexpr (kIsPermits<A>) {
    image.permits.resize(input.count(sizeof(PermitEntry)));
    for (PermitEntry& permit : image.permits) permit = input.take<PermitEntry>();
    return is_permit_list(image.permits);
  } else {
    const auto numbers = std::span(image.numbers).first(number_count<typename A::State>());
    for (std::int64_t& number : numbers) number = input.take<std::int64_t>();
    return std::ranges::all_of(
        numbers, [](std::int64_t number) { return number >= 0 && number <= kLargestNumber<A>; });
  }
}

}  // namespace sluice

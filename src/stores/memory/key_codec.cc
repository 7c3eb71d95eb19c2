#include "stores/memory/key_codec.h"

#include <algorithm>
#include <span>
#include <variant>

#include "core/arithmetic.h"
#include "core/instant.h"

namespace sluice::memory {
namespace {

// How many integers a state of fixed size is.
template <class State>
constexpr std::size_t number_count() {
  static_assert(std::is_trivially_copyable_v<State>);
  static_assert(sizeof(State) % sizeof(std::int64_t) == 0);
  static_assert(sizeof(State) <= sizeof PartImage::numbers);
  return sizeof(State) / sizeof(std::int64_t);
}

// The largest number in a state of A: charges move the instant of a bucket as far as its bits
// allow; the numbers of all others are instants and counts.
template <class A>
inline constexpr std::int64_t kLargestNumber =
    std::is_same_v<typename A::State, BucketState> ? kMaxInt64 : kEndOfTime - 1;

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

// Searches rely on it that stamps increase and that no entry is empty.
bool is_ring(const std::vector<RingEntry>& entries) {
  RingEntry before{.stamp_ns = -1, .total = 0};
  return std::ranges::all_of(entries, [&](const RingEntry& entry) {
    const bool follows = entry.stamp_ns > before.stamp_ns && entry.stamp_ns < kEndOfTime &&
                         entry.total > before.total &&
                         entry.total <= static_cast<std::uint64_t>(kMaxCount);
    before = entry;
    return follows;
  });
}

bool is_permit_list(const std::vector<PermitEntry>& permits) {
  Instant before = 0;
  return std::ranges::all_of(permits, [&](const PermitEntry& permit) {
    const bool follows =
        permit.expires_ns >= before && permit.expires_ns <= kLastEnd && permit.id != 0;
    before = permit.expires_ns;
    return follows;
  });
}

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

// The change that makes the last entry of a ring, or the whole of a state of integers.
template <class A>
typename A::Change last_change(const PartImage& image) {
  if constexpr (kIsRing<A>) {
    if (image.entries.empty()) return {};
    return {.count = static_cast<std::uint32_t>(image.entries.size()),
            .newest = image.entries.back()};
  } else {
    typename A::State state;
    std::memcpy(static_cast<void*>(&state), image.numbers.data(), sizeof state);
    return state;
  }
}

template <class A>
bool make_part(Records& records, Parts parts, std::size_t index, const PartImage& image,
               Cell& key) {
  if constexpr (kIsPermits<A>) {
    // It is the only part.
    const auto count = static_cast<std::uint32_t>(image.permits.size());
    if (!reserve_permits(records, key, count, 0)) return false;
    if (count == 0) return true;
    auto* record = static_cast<PermitsRecord*>(record_of(key));
    std::ranges::copy(image.permits, record->entries());
    record->size = count;
  } else {
    const auto change = last_change<A>(image);
    if (!reserve_part(records, parts, index, key, change)) return false;
    commit_part(records, parts, index, key, change);
    if constexpr (kIsRing<A>) {
      if (image.entries.empty()) return true;
      auto* record = static_cast<RingRecord*>(record_of(part_of(key, index)));
      std::ranges::copy(image.entries, record->entries());
    }
  }
  return true;
}

template <class Visit>
auto visit_part(Parts parts, std::size_t index, Visit visit) {
  return std::visit(
      [&]<class P>(const P& part) {
        return visit.template operator()<typename P::Algorithm>(part.params);
      },
      parts[index]);
}

}  // namespace

void write_key(Parts parts, Cell key, ByteWriter& output) {
  output.put(blocked_until(key));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    visit_part(parts, i, [&]<class A>(const typename A::Params& params) {
      write_part<A>(load<A>(params, part_of(key, i)), output);
    });
  }
}

bool read_key(Parts parts, ByteReader& input, KeyImage& image) {
  image.blocked_until = input.take<Instant>();
  bool valid = image.blocked_until >= 0 && image.blocked_until <= kLastEnd;
  for (std::size_t i = 0; i < parts.size() && valid; ++i) {
    valid = visit_part(parts, i, [&]<class A>(const typename A::Params&) {
      return read_part<A>(input, image.parts[i]);
    });
  }
  return valid && !input.failed();
}

bool make_key(Records& records, Parts parts, const KeyImage& image, Cell& key) {
  key = 0;
  bool made = true;
  for (std::size_t i = 0; i < parts.size() && made; ++i) {
    made = visit_part(parts, i, [&]<class A>(const typename A::Params&) {
      return make_part<A>(records, parts, i, image.parts[i], key);
    });
  }
  if (made && image.blocked_until != 0) {
    made = reserve_block(records, key);
    if (made) block_key(key, image.blocked_until);
  }
  if (!made) {
    records.release(key);
    key = 0;
  }
  return made;
}

std::size_t image_bytes(Parts parts, const KeyImage& image, std::size_t least_large) {
  std::size_t bytes = sizeof(BlockedRecord) + sizeof(PartsRecord);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const PartImage& part = image.parts[i];
    const std::size_t own = visit_part(parts, i, [&]<class A>(const typename A::Params&) {
      if constexpr (kIsRing<A>) {
        return list_bytes<RingRecord>(static_cast<std::uint32_t>(part.entries.size()));
      } else if constexpr (kIsPermits<A>) {
        return list_bytes<PermitsRecord>(static_cast<std::uint32_t>(part.permits.size()));
      } else {
        return sizeof(Record) + sizeof(typename A::State);
      }
    });
    bytes += sizeof(Cell) + (own < least_large ? own : 0);
  }
  return bytes;
}

}  // namespace sluice::memory

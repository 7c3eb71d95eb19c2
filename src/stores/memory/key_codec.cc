#include "stores/memory/key_codec.h"

#include <algorithm>
#include <variant>

namespace sluice::memory {
namespace {

// The change that makes the last entry of a ring, or the whole of a state of integers.
template <class A>
typename A::Change last_change(const PartImage& image) {
  if constexpr (kIsRing<A>) {
    if (image.entries.empty()) return {};
    return {.count = static_cast<std::uint32_t>(image.entries.size()),
            .newest = image.entries.back()};
  } else {
    return state_of_numbers<typename A::State>(image);
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

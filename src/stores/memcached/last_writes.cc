#include "stores/memcached/last_writes.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/prefetch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr std::size_t kWays = 4;
constexpr std::size_t kFirstSlots = 1'024;

// They are gone through at random, and to find a small page takes as long as to read from it. A
// wish: where there are none, nothing changes.
void prefer_huge_pages(void* begin, std::size_t bytes) {
  constexpr std::uintptr_t kPage = 4096;
  const auto first = (reinterpret_cast<std::uintptr_t>(begin) + kPage - 1) / kPage * kPage;
  const auto last = (reinterpret_cast<std::uintptr_t>(begin) + bytes) / kPage * kPage;
  if (first < last) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
}

}  // namespace

LastWrites::LastWrites() : slots_(make_slots(kFirstSlots)) {}

std::vector<LastWrites::Slot> LastWrites::make_slots(std::size_t count) {
  std::vector<Slot> slots;
  slots.reserve(count);
  prefer_huge_pages(slots.data(), count * sizeof(Slot));
  slots.resize(count);
  return slots;
}

std::uint64_t LastWrites::hash_of(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

// Where a key is looked for: in each way of its set, first in its own, where it most often is.
std::size_t LastWrites::place_of(std::uint64_t hash, std::size_t way) const {
  return (hash & (slots_.size() - kWays)) | ((hash >> 62) + way) % kWays;
}

void LastWrites::prefetch_place(std::uint64_t hash) const {
  __builtin_prefetch(&slots_[place_of(hash, 0)], 1);
}

void LastWrites::prefetch_value(std::uint64_t hash) const {
  constexpr std::size_t kFetched = 512;  // Of a longer one the rest is foreseen by the processor.
  const Slot& slot = slots_[place_of(hash, 0)];
  if (slot.hash != hash || slot.token == 0) return;
  prefetch(slot.value.data(), std::min(slot.value.size(), kFetched));
}

const LastWrites::Slot* LastWrites::find_slot(const Key& key) const {
  for (std::size_t way = 0; way < kWays; ++way) {
    const Slot& slot = slots_[place_of(key.hash, way)];
    if (slot.hash == key.hash && slot.connection == key.connection && slot.token != 0) return &slot;
  }
  return nullptr;
}

LastWrites::Slot* LastWrites::find_slot(const Key& key) {
  return const_cast<Slot*>(std::as_const(*this).find_slot(key));
}

std::optional<LastWrites::Write> LastWrites::find(const Key& key, Instant now) const {
  const Slot* slot = find_slot(key);
  if (slot == nullptr || slot->contested || slot->until <= now) return std::nullopt;
  return Write{.value = slot->value, .token = slot->token, .until = slot->until};
}

void LastWrites::remember(const Key& key, const Write& write) {
  Slot* slot = find_slot(key);
  if (slot == nullptr) {
    slot = &make_slot(key.hash);
    slot->value.assign(write.value);
    slot->hash = key.hash;
    slot->connection = key.connection;
    ++used_;
    bytes_ += slot->value.capacity();
  } else {
    assign(*slot, write.value);
  }
  slot->token = write.token;
  slot->until = write.until;
  while (bytes_ > kMaxBytes) drop(slots_[hand_++ & (slots_.size() - 1)]);
}

void LastWrites::found(const Key& key, std::uint64_t token) {
  Slot* slot = find_slot(key);
  if (slot != nullptr) slot->contested = slot->token != token;
}

void LastWrites::forget(const Key& key) {
  Slot* slot = find_slot(key);
  if (slot != nullptr) drop(*slot);
}

// An empty one: where all of the set are used, there are more sets, or one is forgotten.
LastWrites::Slot& LastWrites::make_slot(std::uint64_t hash) {
  for (;;) {
    for (std::size_t way = 0; way < kWays; ++way) {
      Slot& slot = slots_[place_of(hash, way)];
      if (slot.token == 0) return slot;
    }
    if (slots_.size() == kMaxKeys || used_ < slots_.size() / 2) {
      Slot& own = slots_[place_of(hash, 0)];
      drop(own);
      return own;
    }
    grow();
  }
}

// The slots of one set go to two, so that each finds room.
void LastWrites::grow() {
  std::vector<Slot> before = make_slots(2 * slots_.size());
  before.swap(slots_);
  for (Slot& slot : before) {
    if (slot.token != 0) make_slot(slot.hash) = std::move(slot);
  }
}

// Keeps the room that there is, unless it is far more than is needed.
void LastWrites::assign(Slot& slot, std::string_view value) {
  const std::size_t before = slot.value.capacity();
  if (before > 2 * value.size() + sizeof(Slot)) {
    std::string(value).swap(slot.value);
  } else {
    slot.value.assign(value);
  }
  bytes_ += slot.value.capacity();
  bytes_ -= before;
}

void LastWrites::drop(Slot& slot) {
  if (slot.token == 0) return;
  bytes_ -= slot.value.capacity();
  --used_;
  // An assignment may keep the room that there was.
  std::string().swap(slot.value);
  slot = Slot{};
}

}  // namespace sluice::memcached

#include "stores/memcached/last_writes.h"

#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr std::size_t kWays = 4;
constexpr std::size_t kFirstSlots = 1'024;

// Two keys may have the same: no token of one fits a value of the other.
std::uint64_t tag_of(std::string_view name) {
  return XXH3_64bits(name.data(), name.size());
}

}  // namespace

LastWrites::LastWrites() : slots_(kFirstSlots) {}

std::size_t LastWrites::set_of(std::uint64_t tag) const {
  return tag & (slots_.size() - kWays);
}

const LastWrites::Slot* LastWrites::find_slot(const Key& key) const {
  const std::uint64_t tag = tag_of(key.name);
  const Slot* const set = &slots_[set_of(tag)];
  for (std::size_t i = 0; i < kWays; ++i) {
    const Slot& slot = set[i];
    if (slot.tag == tag && slot.connection == key.connection && slot.token != 0) return &slot;
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
    const std::uint64_t tag = tag_of(key.name);
    slot = &make_slot(tag);
    slot->value.assign(write.value);
    slot->tag = tag;
    slot->connection = key.connection;
    ++used_;
    bytes_ += slot->value.capacity();
  } else {
    assign(*slot, write.value);
  }
  // Where there is no memory for the value, the token of the one before stays with it.
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
LastWrites::Slot& LastWrites::make_slot(std::uint64_t tag) {
  for (;;) {
    Slot* const set = &slots_[set_of(tag)];
    for (std::size_t i = 0; i < kWays; ++i) {
      if (set[i].token == 0) return set[i];
    }
    if (slots_.size() == kMaxKeys || used_ < slots_.size() / 2) {
      Slot& any = set[tag >> 62];
      drop(any);
      return any;
    }
    grow();
  }
}

// The slots of one set go to two, so that each finds room.
void LastWrites::grow() {
  std::vector<Slot> before(2 * slots_.size());
  before.swap(slots_);
  for (Slot& slot : before) {
    if (slot.token != 0) make_slot(slot.tag) = std::move(slot);
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

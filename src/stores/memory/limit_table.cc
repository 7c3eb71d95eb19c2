#include "stores/memory/limit_table.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>
#include <variant>

#include "core/key_hash.h"

namespace sluice::memory {
namespace {

// About the bytes of a row beside its parts: the row, and what malloc and a vector add to them.
// For a space also what a caller that holds it needs, and its name.
constexpr std::size_t kNumbersBytes = 80;
constexpr std::size_t kSpaceBytes = 512;

std::size_t bytes_of_space(const std::string& name, const std::vector<AnyPart>& parts) {
  return kSpaceBytes + name.size() + parts.size() * sizeof(AnyPart);
}

// A permutation of 64-bit numbers, SplitMix64's finaliser, so that the hash of a space does not
// cancel the hash of a key.
std::uint64_t mix(std::uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

bool keeps_records(const LimitDefinition& limit) {
  return limit.parts.size() > 1 || std::visit(
                                       []<class P>(const P&) {
                                         return kIsRing<typename P::Algorithm> ||
                                                kIsPermits<typename P::Algorithm>;
                                       },
                                       limit.parts[0]);
}

}  // namespace

MemorySpace::MemorySpace(std::shared_ptr<LimitTable> limits, LimitId id, const KeyHash& salt,
                         const LimitDefinition& limit)
    : limits_(std::move(limits)),
      id_(id),
      keeps_keys_(!limit.any_numbers),
      keeps_records_(memory::keeps_records(limit)),
      salt_(salt) {}

MemorySpace::~MemorySpace() {
  limits_->let_go(*this);
}

LimitTable::LimitTable(std::size_t max_bytes, const HashSecret& secret)
    : max_bytes_((std::size_t{4} << 20) + max_bytes / 32), secret_(secret) {}

LimitTable::~LimitTable() {
  for (auto& chunk : chunks_) {
    if (Chunk* rows = chunk.load(std::memory_order_relaxed)) {
      for (Row& row : *rows) delete row.parts.load(std::memory_order_relaxed);
      delete rows;
    }
  }
}

std::size_t LimitTable::most() const {
  return std::min(kMaxLimits, max_bytes_ / kSpaceBytes);
}

LimitTable::Opened LimitTable::open(const LimitDefinition& limit, const Space* held) {
  Opened opened;
  std::shared_ptr<MemorySpace> former;  // Let go after mutex_ is unlocked.
  const std::lock_guard lock(mutex_);
  if (const auto found = ids_.find(limit.space); found != ids_.end()) {
    const LimitId id = found->second;
    Row& known = row(id);
    const PartList& parts = *known.parts.load(std::memory_order_relaxed);
    former = known.data->handle.lock();
    const bool has_others =
        former != nullptr && former.use_count() > (former.get() == held ? 2 : 1);
    if (keeps_state(parts, limit.parts)) {
      const bool differs = parts != limit.parts;
      const bool varied = known.data->hints != nullptr;
      // As limits of one name with different numbers: the others go on with theirs.
      const bool varies = limit.varies || (has_others && differs);
      // Once the numbers vary, a key keeps those by which it was asked last.
      if (differs && !has_others && !(varied && varies)) {
        opened.retired.reset(known.parts.exchange(new PartList(limit.parts)));
      }
      if (varies && !varied) {
        known.data->hints = std::make_unique<MemorySpace::Hints>();
        if (former != nullptr) former->begin_to_vary(known.data->hints.get());
      }
      opened.space = former != nullptr ? former : hold(id, limit);
      return opened;
    }
    if (has_others) {
      throw StoreError("memory store: the keys of '" + limit.space + "' are those of '" +
                       describe_parts(parts) + "', which '" + limit.expression +
                       "' cannot take over while others use them");
    }
    // Checked first: a limit that is refused leaves the former one as it is.
    require_room(limit);
    opened.retired = retire(id);
  }
  require_room(limit);
  const LimitId id = add_row(limit.space, limit.parts);
  row(id).data->made = ++spaces_made_;
  if (limit.varies) row(id).data->hints = std::make_unique<MemorySpace::Hints>();
  opened.space = hold(id, limit);
  row(id).uses.fetch_sub(1, std::memory_order_relaxed);  // That of add_row().
  if (held != nullptr && former.get() == held) opened.space->succeed(*held);
  return opened;
}

std::shared_ptr<MemorySpace> LimitTable::hold(LimitId id, const LimitDefinition& limit) {
  Row& held = row(id);
  SpaceData& data = *held.data;
  const KeyHash name = hash_key(data.name, secret_);
  const KeyHash salt{mix(name.high + data.made), mix(name.low - data.made)};
  auto space = std::make_shared<MemorySpace>(shared_from_this(), id, salt, limit);
  if (data.hints != nullptr) space->begin_to_vary(data.hints.get());
  data.handle = space;
  ++held.uses;
  if (space->keeps_keys()) ++held.holders;
  return space;
}

// No request finds the space's keys any more: by a limit without parts, all are fresh.
std::unique_ptr<const LimitTable::PartList> LimitTable::retire(LimitId id) {
  ids_.erase(row(id).data->name);
  return std::unique_ptr<const PartList>(row(id).parts.exchange(new PartList()));
}

LimitTable::Image LimitTable::image_of(LimitId id, const PartList& parts) {
  const std::lock_guard lock(mutex_);
  const LimitId number = row(id).space;
  const SpaceData& space = *row(number).data;
  return {.space = number, .made = space.made, .name = space.name, .parts = parts};
}

LimitId LimitTable::restore(const Image& image, LimitId space) {
  const std::lock_guard lock(mutex_);
  if (space != 0) {
    auto& hints = row(space).data->hints;
    if (hints == nullptr) hints = std::make_unique<MemorySpace::Hints>();
    return add_numbers(head_of(space, image.parts), space, image.parts);
  }
  if (const auto found = ids_.find(image.name); found != ids_.end()) retire(found->second);
  const LimitId id = add_row(image.name, image.parts);
  if (id != 0) row(id).data->made = image.made;
  spaces_made_ = std::max(spaces_made_, image.made);
  return id;
}

void LimitTable::let_go(const MemorySpace& space) {
  if (space.keeps_keys()) --row(space.id()).holders;
  remove_key(space.id());
}

// The list that has the row of these numbers of the space, if there is one.
LimitId& LimitTable::head_of(LimitId space, const PartList& parts) {
  std::array<LimitNumbers, kMaxParts + 1> numbers{};
  numbers[parts.size()].count = space;
  std::ranges::transform(parts, numbers.begin(), numbers_of);
  const auto bytes = std::as_bytes(std::span(numbers).first(parts.size() + 1));
  const KeyHash hash =
      hash_key({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, secret_);
  return heads_[hash.low % heads_.size()];
}

// Whether there is room for another row of so many bytes, and others stay free.
bool LimitTable::has_room(std::size_t bytes, std::size_t sixteenths_kept) const {
  const std::size_t in_use = rows_ - free_.size();
  return bytes_ + bytes + max_bytes_ / 16 * sixteenths_kept <= max_bytes_ &&
         in_use + kMaxLimits / 16 * sixteenths_kept < kMaxLimits;
}

void LimitTable::require_room(const LimitDefinition& limit) const {
  if (has_room(bytes_of_space(limit.space, limit.parts), limit.is_named() ? 0 : 2)) return;
  throw StoreError(
      "memory store: there is no room for another limit: " + std::to_string(rows_ - free_.size()) +
      " are in use or have keys that are not fresh");
}

// The row of a space, with one use, or 0.
LimitId LimitTable::add_row(std::string name, const PartList& parts) {
  const LimitId id = use_row(parts, bytes_of_space(name, parts), 0);
  if (id == 0) return 0;
  auto& data = row(id).data;
  data = std::make_unique<SpaceData>(SpaceData{.name = std::move(name)});
  ids_.emplace(data->name, id);
  return id;
}

// The row of these numbers of the space, from their list, or 0.
LimitId LimitTable::find_numbers(LimitId head, LimitId space, const PartList& parts) const {
  for (LimitId id = head; id != 0; id = row(id).next) {
    const Row& known = row(id);
    if (known.space == space && *known.parts.load(std::memory_order_relaxed) == parts) return id;
  }
  return 0;
}

// A row for these numbers of the space, with one use, first in their list, or 0.
LimitId LimitTable::add_numbers(LimitId& head, LimitId space, const PartList& parts,
                                std::size_t sixteenths_kept) {
  const std::size_t bytes = kNumbersBytes + parts.size() * sizeof(AnyPart);
  const LimitId id = has_room(bytes, sixteenths_kept) ? use_row(parts, bytes, space) : LimitId{0};
  if (id == 0) return 0;
  ++row(space).uses;
  row(id).next = std::exchange(head, id);
  return id;
}

// A row with one use, or 0: that of numbers of `space`, or, if that is 0, of a space.
LimitId LimitTable::use_row(const PartList& parts, std::size_t bytes, LimitId space) {
  if (!has_room(bytes)) return 0;
  LimitId id;
  if (free_.empty()) {
    id = static_cast<LimitId>(++rows_);
    auto& chunk = chunks_[id / kRowsAtOnce];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      chunk.store(new Chunk(), std::memory_order_release);
    }
  } else {
    id = free_.back();
    free_.pop_back();
  }
  Row& used = row(id);
  used.parts.store(new PartList(parts), std::memory_order_release);
  used.space = space != 0 ? space : id;
  used.bytes = static_cast<std::uint32_t>(bytes);
  count_bytes(bytes_ + bytes);
  used.uses.store(1, std::memory_order_release);
  return id;
}

// No request finds the row any more, which may be that of a space or of its numbers.
void LimitTable::forget_index(LimitId id) {
  const Row& unused = row(id);
  if (unused.space == id) {
    const auto found = ids_.find(unused.data->name);
    if (found != ids_.end() && found->second == id) ids_.erase(found);
    return;
  }
  LimitId* at = &head_of(unused.space, *unused.parts.load(std::memory_order_relaxed));
  while (*at != id) at = &row(*at).next;
  *at = unused.next;
}

void LimitTable::count_bytes(std::size_t bytes) {
  bytes_ = bytes;
  const auto is_above = [&](std::size_t quarters) {
    return bytes_ > max_bytes_ / 4 * quarters || rows_ - free_.size() > kMaxLimits / 4 * quarters;
  };
  room_.store(is_above(3)   ? Room::kShort
              : is_above(2) ? Room::kScarce
                            : Room::kAmple,
              std::memory_order_relaxed);
}

void LimitTable::drop_unused(LimitId id) {
  const std::lock_guard lock(mutex_);
  // Another thread may have used it again meanwhile, and dropped it again.
  for (LimitId unused = id; unused != 0;) {
    Row& dropped = row(unused);
    if (dropped.space == 0 || dropped.uses.load(std::memory_order_acquire) != 0) return;
    forget_index(unused);
    dropped.data.reset();
    const LimitId space = std::exchange(dropped.space, LimitId{0});
    delete dropped.parts.exchange(nullptr);
    free_.push_back(unused);
    count_bytes(bytes_ - dropped.bytes);
    // The numbers of a space keep the space's row.
    const bool was_last = space != unused && row(space).uses.fetch_sub(1) == 1;
    unused = was_last ? space : LimitId{0};
  }
}

LimitId LimitTable::add_varying_key(const MemorySpace& space, const LimitDefinition& limit) {
  const auto address = reinterpret_cast<std::uintptr_t>(&limit);
  auto& hints = *space.hints_.load(std::memory_order_acquire);
  auto& hint = hints[(address / 64) % hints.size()];
  const LimitId known = hint.load(std::memory_order_relaxed);
  if (known != 0 && pin_if_equal(known, space, limit.parts)) return known;

  LimitId& head = head_of(space.id(), limit.parts);
  const std::lock_guard lock(mutex_);
  LimitId id = find_numbers(head, space.id(), limit.parts);
  if (id != 0) {
    ++row(id).uses;
  } else {
    id = add_numbers(head, space.id(), limit.parts, limit.any_numbers ? 1 : 0);
  }
  if (id == 0 && !limit.any_numbers) {  // Better judged by other numbers than denied.
    ++row(space.id()).uses;
    return space.id();
  }
  hint.store(id, std::memory_order_relaxed);
  return id;
}

// Counts another key of a row, if it has these numbers of this space.
bool LimitTable::pin_if_equal(LimitId id, const MemorySpace& space, const PartList& parts) {
  Row& found = row(id);
  std::uint32_t uses = found.uses.load(std::memory_order_relaxed);
  do {
    if (uses == 0) return false;
  } while (!found.uses.compare_exchange_weak(uses, uses + 1, std::memory_order_acquire));
  // Now it cannot change.
  if (found.space == space.id() && *found.parts.load(std::memory_order_relaxed) == parts) {
    return true;
  }
  remove_key(id);
  return false;
}

}  // namespace sluice::memory

#include "stores/memory/limit_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/key_hash.h"

namespace sluice::memory {
namespace {

// About the bytes of a space beside its name and parts: its row, what a caller that holds it needs,
// and what malloc adds to them.
constexpr std::size_t kSpaceBytes = 512;

// The parts count three times, since there are the smallest and the largest ones, too, once the
// numbers vary.
std::size_t bytes_of_space(const std::string& name, const std::vector<AnyPart>& parts) {
  return kSpaceBytes + name.size() + 3 * parts.size() * sizeof(AnyPart);
}

AnyPart with_number(AnyPart part, std::int64_t used) {
  std::visit(
      [&]<class P>(P& p) { p.params = with_most_used<typename P::Algorithm>(p.params, used); },
      part);
  return part;
}

std::vector<AnyPart> with_numbers(std::vector<AnyPart> parts, const MostUsed& numbers) {
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = with_number(parts[i], numbers[i]);
  return parts;
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
      keeps_records_(memory::keeps_records(limit)),
      salt_(salt) {}

MemorySpace::~MemorySpace() {
  limits_->remove_uses(id_, LimitTable::kHandle);
}

LimitTable::LimitTable(std::size_t max_bytes, const HashSecret& secret)
    : max_bytes_((std::size_t{4} << 20) + max_bytes / 32), secret_(secret), numbers_(secret) {}

LimitTable::~LimitTable() {
  for (auto& chunk : chunks_) {
    if (Chunk* rows = chunk.load(std::memory_order_relaxed)) {
      for (Row& row : *rows) delete row.parts.load(std::memory_order_relaxed);
      delete rows;
    }
  }
}

std::size_t LimitTable::most() const {
  return std::min(kMaxSpaces, max_bytes_ / kSpaceBytes);
}

LimitTable::Opened LimitTable::open(const LimitDefinition& limit,
                                    const std::shared_ptr<Space>& held) {
  Opened opened;
  std::shared_ptr<MemorySpace> former;  // Let go after mutex_ is unlocked.
  const std::lock_guard lock(mutex_);
  LimitId former_id = 0;
  if (const auto found = ids_.find(limit.space); found != ids_.end()) {
    const LimitId id = former_id = found->second;
    Row& known = row(id);
    const PartList& parts = *known.parts.load(std::memory_order_relaxed);
    former = known.data->handle.lock();
    const bool has_others = former != nullptr && former->has_others(held);
    if (keeps_state(parts, limit.parts)) {
      const bool differs = parts != limit.parts;
      // The caller changes its own limit, or one whose keys were restored.
      const bool changes = former != nullptr ? !has_others : !known.data->was_held;
      // Once the numbers vary, a key keeps those by which it was asked last.
      const bool replaces = differs && changes && known.largest.id == 0;
      // As limits of one name with different numbers: each may be used again with its own.
      const bool varies = limit.varies || (differs && !changes);
      if (varies && !begin_to_vary(id, former.get())) refuse();
      opened.space = former != nullptr ? Space::hold(former, held) : hold(id, limit);
      if (replaces) opened.retired.reset(known.parts.exchange(new PartList(limit.parts)));
      return opened;
    }
    if (has_others) {
      throw StoreError("memory store: the keys of '" + limit.space + "' are those of '" +
                       describe_parts(parts) + "', which '" + limit.expression +
                       "' cannot take over while others use them");
    }
  }
  // Checked first: a limit that is refused leaves the former one as it is.
  if (!has_room(bytes_of_space(limit.space, limit.parts), limit.is_named() ? 0 : 1)) refuse();
  const LimitId id = add_row(limit.space, limit.parts);
  if (limit.varies && !begin_to_vary(id, nullptr)) {
    free_row(id);
    refuse();
  }
  opened.retired = give_name(id, former_id);
  row(id).data->made = ++spaces_made_;
  opened.space = hold(id, limit);
  row(id).uses.fetch_sub(1, std::memory_order_relaxed);  // That of add_row().
  if (former != nullptr) opened.space->succeed(*former);
  return opened;
}

std::shared_ptr<Space> LimitTable::hold(LimitId id, const LimitDefinition& limit) noexcept {
  Row& held = row(id);
  SpaceData& data = *held.data;
  const KeyHash name = hash_key(data.name, secret_);
  const KeyHash salt{mix(name.high + data.made), mix(name.low - data.made)};
  auto space = std::make_shared<MemorySpace>(shared_from_this(), id, salt, limit);
  space->largest_.store(held.largest.id, std::memory_order_release);
  data.handle = space;
  data.was_held = true;
  held.uses += kHandle;
  return Space::hold(space);
}

// From now on the keys of the space, and of its handle if it has one, may have numbers of their
// own. Returns false, and changes nothing, if there is no room.
bool LimitTable::begin_to_vary(LimitId space, MemorySpace* handle) noexcept {
  Row& varying = row(space);
  if (varying.largest.id == 0) {
    const PartList& parts = *varying.parts.load(std::memory_order_relaxed);
    const auto add = [&](Extreme& extreme, const MostUsed& numbers) {
      extreme.id = numbers_.add_row(space, numbers);
      extreme.parts = std::make_unique<const PartList>(with_numbers(parts, numbers));
      return extreme.id != 0;
    };
    if (!add(varying.smallest, smallest_used(parts))) return false;
    if (!add(varying.largest, largest_used(parts))) {
      numbers_.free_row(varying.smallest.id);
      return false;
    }
  }
  if (handle != nullptr) handle->largest_.store(varying.largest.id, std::memory_order_release);
  return true;
}

// The space is found by its name from now on. No request finds the keys of the former one of that
// name, if there is any: by a limit without parts, which it gets, all are fresh.
std::unique_ptr<const LimitTable::PartList> LimitTable::give_name(LimitId id,
                                                                  LimitId former) noexcept {
  std::unique_ptr<const PartList> retired;
  if (former != 0) {
    ids_.erase(row(former).data->name);
    retired.reset(row(former).parts.exchange(std::make_unique<PartList>().release()));
  }
  ids_.emplace(row(id).data->name, id);
  return retired;
}

LimitTable::Image LimitTable::image_of(LimitId id) {
  const std::lock_guard lock(mutex_);
  const LimitId number = space_of(id);
  const SpaceData& space = *row(number).data;
  OwnParts room;
  const Parts parts = own_parts(id, room);
  return {.space = number,
          .made = space.made,
          .name = space.name,
          .parts = {parts.begin(), parts.end()},
          .largest = number == id ? row(id).largest.id : LimitId{0}};
}

LimitId LimitTable::restore(const Image& image, LimitId space) {
  const std::lock_guard lock(mutex_);
  if (space != 0) {
    space = space_of(space);  // A file may name other numbers of the space.
    if (!begin_to_vary(space, nullptr)) return 0;
    LimitId id = numbers_.add_key(space, most_used_of(image.parts));
    if (id == 0) id = row(space).smallest.id;
    row(space).uses.fetch_add(1, std::memory_order_relaxed);
    return id;
  }
  if (!has_room(bytes_of_space(image.name, image.parts))) return 0;
  const LimitId id = add_row(image.name, image.parts);
  const auto former = ids_.find(image.name);
  give_name(id, former != ids_.end() ? former->second : LimitId{0});
  row(id).data->made = image.made;
  spaces_made_ = std::max(spaces_made_, image.made);
  return id;
}

Parts LimitTable::own_parts(LimitId id, OwnParts& room) const {
  const PartList& kind = parts(id);
  if (!NumbersTable::has(id) || kind.empty()) return kind;
  const Extreme& largest = row(numbers_.space(id)).largest;
  if (id == largest.id) return *largest.parts;
  room.clear();
  for (const AnyPart& part : kind) {
    room.push_back(with_number(part, numbers_.most_used(id, room.size())));
  }
  return room;
}

// Whether there is room for another space of so many bytes, and others stay free.
bool LimitTable::has_room(std::size_t bytes, std::size_t eighths_kept) const {
  return bytes_ + bytes + max_bytes_ / 8 * eighths_kept <= max_bytes_ &&
         in_use_ + 1 + kMaxSpaces / 8 * eighths_kept <= kMaxSpaces;
}

void LimitTable::refuse() {
  refusals_.fetch_add(1, std::memory_order_relaxed);
  throw StoreError("memory store: there is no room for another limit: " + std::to_string(in_use_) +
                   " are in use or have keys that are not fresh");
}

// The row of a space, with one use. REQUIRES: there is room.
LimitId LimitTable::add_row(const std::string& name, const PartList& parts) noexcept {
  LimitId id = free_;
  if (id == 0) {
    id = static_cast<LimitId>(++rows_);
    auto& chunk = chunks_[id / kRowsAtOnce];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      chunk.store(std::make_unique<Chunk>().release(), std::memory_order_release);
    }
  } else {
    free_ = row(id).next;
  }
  ++in_use_;
  Row& used = row(id);
  used.parts.store(std::make_unique<PartList>(parts).release(), std::memory_order_release);
  used.data = std::make_unique<SpaceData>(SpaceData{.name = name});
  used.bytes = static_cast<std::uint32_t>(bytes_of_space(name, parts));
  count_bytes(bytes_ + used.bytes);
  used.uses.store(1, std::memory_order_release);
  return id;
}

void LimitTable::change_numbers(LimitId& own, const MemorySpace& space,
                                const LimitDefinition& limit, bool denies) noexcept {
  const MostUsed numbers = most_used_of(limit.parts);
  // A key that has its own numbers keeps them, so that it does not change between two ids each time
  // it begins to deny.
  const bool has_numbers = NumbersTable::has(own) && own != space.largest();
  if (has_numbers && numbers_.equals(own, numbers)) return;
  const LimitId former = own;
  own = denies ? numbers_.add_key(space.id(), numbers) : space.largest();
  if (own == 0) own = row(space.id()).smallest.id;
  if (NumbersTable::has(former)) numbers_.remove_key(former);
}

void LimitTable::free_row(LimitId id) noexcept {
  Row& freed = row(id);
  if (freed.largest.id != 0) {
    numbers_.free_row(freed.largest.id);
    numbers_.free_row(freed.smallest.id);
  }
  freed.smallest = {};
  freed.largest = {};
  freed.data.reset();
  delete freed.parts.exchange(nullptr);
  freed.next = std::exchange(free_, id);
  --in_use_;
  count_bytes(bytes_ - freed.bytes);
}

void LimitTable::count_bytes(std::size_t bytes) {
  bytes_ = bytes;
  const auto is_above = [&](std::size_t quarters) {
    return bytes_ > max_bytes_ / 4 * quarters || in_use_ > kMaxSpaces / 4 * quarters;
  };
  room_.store(is_above(3)   ? Room::kShort
              : is_above(2) ? Room::kScarce
                            : Room::kAmple,
              std::memory_order_relaxed);
}

void LimitTable::drop_unused(LimitId space) {
  // In a child of fork() a thread that is not there may hold the mutex.
  if (generation_ != fork_generation()) return;
  const std::lock_guard lock(mutex_);
  const Row& dropped = row(space);
  // Another thread may have used it again meanwhile, and dropped it again.
  if (dropped.data == nullptr || dropped.uses.load(std::memory_order_acquire) != 0) return;
  const auto found = ids_.find(dropped.data->name);
  if (found != ids_.end() && found->second == space) ids_.erase(found);
  free_row(space);
}

}  // namespace sluice::memory

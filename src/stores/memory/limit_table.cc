#include "stores/memory/limit_table.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "core/key_hash.h"

namespace sluice::memory {
namespace {

// About the bytes of a row beside its parts: the row, and what malloc and a vector add to them.
// For a space also what a caller that holds it needs, and its name.
constexpr std::size_t kNumbersBytes = 88;
constexpr std::size_t kSpaceBytes = 512;

std::size_t bytes_of_numbers(const std::vector<AnyPart>& parts) {
  return kNumbersBytes + parts.size() * sizeof(AnyPart);
}

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
      keeps_records_(memory::keeps_records(limit)),
      salt_(salt) {}

MemorySpace::~MemorySpace() {
  limits_->remove_uses(id_, LimitTable::kHandle);
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
      const bool replaces = differs && changes && known.data->numbers == nullptr;
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
  std::size_t bytes = bytes_of_space(limit.space, limit.parts);
  if (limit.varies) bytes += bytes_of_numbers(limit.parts) + sizeof(Lists);
  if (!has_room(bytes, limit.is_named() ? 0 : 2, limit.varies ? 2 : 1)) refuse();
  if (former_id != 0) opened.retired = retire(former_id);
  const LimitId id = add_row(limit.space, limit.parts);
  row(id).data->made = ++spaces_made_;
  if (limit.varies) begin_to_vary(id, nullptr);
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
  space->numbers_.store(data.numbers.get(), std::memory_order_release);
  data.handle = space;
  data.was_held = true;
  held.uses += kHandle;
  return Space::hold(space);
}

// From now on the keys of the space, and of its handle if it has one, may have numbers of their
// own. Returns false, and changes nothing, if there is no room.
bool LimitTable::begin_to_vary(LimitId space, MemorySpace* handle) noexcept {
  SpaceData& data = *row(space).data;
  if (data.numbers == nullptr) {
    const PartList& parts = *row(space).parts.load(std::memory_order_relaxed);
    const std::size_t bytes = bytes_of_numbers(parts) + sizeof(Lists);
    if (!has_room(bytes)) return false;
    auto numbers = std::make_unique<Lists>();
    data.strictest = add_numbers(space, *numbers, NumbersCode::strictest(parts), bytes);
    data.numbers = std::move(numbers);
  }
  if (handle != nullptr) handle->numbers_.store(data.numbers.get(), std::memory_order_release);
  return true;
}

// No request finds the space's keys any more: by a limit without parts, all are fresh.
std::unique_ptr<const LimitTable::PartList> LimitTable::retire(LimitId id) noexcept {
  ids_.erase(row(id).data->name);
  return std::unique_ptr<const PartList>(row(id).parts.exchange(new PartList()));
}

LimitTable::Image LimitTable::image_of(LimitId id, const PartList& parts) {
  const std::lock_guard lock(mutex_);
  const LimitId number = row(id).space;
  const SpaceData& space = *row(number).data;
  return {.space = number,
          .made = space.made,
          .name = space.name,
          .parts = parts,
          .strictest = number == id ? space.strictest : LimitId{0}};
}

LimitId LimitTable::restore(const Image& image, LimitId space) {
  const std::lock_guard lock(mutex_);
  if (space != 0) {
    space = row(space).space;  // A file may name other numbers of the space.
    if (!begin_to_vary(space, nullptr)) return 0;
    const LimitId id = numbers_row(space, image.parts);
    add_key(id);
    return id;
  }
  if (const auto found = ids_.find(image.name); found != ids_.end()) retire(found->second);
  const LimitId id = add_row(image.name, image.parts);
  if (id != 0) row(id).data->made = image.made;
  spaces_made_ = std::max(spaces_made_, image.made);
  return id;
}

// Whether there is room for so many rows of so many bytes together, and others stay free.
bool LimitTable::has_room(std::size_t bytes, std::size_t sixteenths_kept, std::size_t rows) const {
  return bytes_ + bytes + max_bytes_ / 16 * sixteenths_kept <= max_bytes_ &&
         in_use_ + rows + kMaxLimits / 16 * sixteenths_kept <= kMaxLimits;
}

void LimitTable::refuse() {
  refusals_.fetch_add(1, std::memory_order_relaxed);
  throw StoreError("memory store: there is no room for another limit: " + std::to_string(in_use_) +
                   " are in use or have keys that are not fresh");
}

// The row of a space, with one use, or 0.
LimitId LimitTable::add_row(const std::string& name, const PartList& parts) noexcept {
  const std::size_t bytes = bytes_of_space(name, parts);
  if (!has_room(bytes)) return 0;
  const LimitId id = use_row(parts, bytes, 0);
  auto& data = row(id).data;
  data = std::make_unique<SpaceData>(SpaceData{.name = name});
  ids_.emplace(data->name, id);
  return id;
}

LimitId LimitTable::id_of(const MemorySpace& space, const LimitDefinition& limit) noexcept {
  auto* lists = space.numbers_.load(std::memory_order_acquire);
  if (lists == nullptr) return space.id();
  if (const LimitId id = find_numbers(*lists, limit.parts)) return id;
  if (const LimitId id = lists->beyond.load(std::memory_order_acquire)) return id;
  const std::lock_guard lock(mutex_);
  return numbers_row(space.id(), limit.parts);
}

// The row of these numbers of the space or, if there is no room for it, the strictest one.
LimitId LimitTable::numbers_row(LimitId space, const PartList& parts) noexcept {
  SpaceData& data = *row(space).data;
  if (const LimitId id = find_numbers(*data.numbers, parts)) return id;
  if (data.sets == kMostSets) {
    data.numbers->beyond.store(data.strictest, std::memory_order_release);
    return data.strictest;
  }
  const std::size_t bytes = bytes_of_numbers(parts);
  if (!has_room(bytes, 8)) return data.strictest;
  return add_numbers(space, *data.numbers, parts, bytes);
}

// Another row of numbers, rounded down. REQUIRES: there is room.
LimitId LimitTable::add_numbers(LimitId space, Lists& lists, const PartList& parts,
                                std::size_t bytes) noexcept {
  // The strictest one comes first.
  const bool fine = row(space).data->sets++ <= kFineSets;
  const Rounding rounding = fine ? Rounding::kFine : Rounding::kCoarse;
  const LimitId id = use_row(NumbersCode::rounded(parts, rounding), bytes, space);
  const NumbersCode code(parts, rounding);
  std::atomic<LimitId>& list = list_of(lists, code);
  row(id).code = code;
  row(id).next = list.load(std::memory_order_relaxed);
  list.store(id, std::memory_order_release);
  return id;
}

// A row: that of numbers of `space`, or, if that is 0, of a space, with one use. REQUIRES: there is
// room.
LimitId LimitTable::use_row(PartList parts, std::size_t bytes, LimitId space) noexcept {
  LimitId id = free_;
  if (id == 0) {
    id = static_cast<LimitId>(++rows_);
    auto& chunk = chunks_[id / kRowsAtOnce];
    if (chunk.load(std::memory_order_relaxed) == nullptr) {
      chunk.store(new Chunk(), std::memory_order_release);
    }
  } else {
    free_ = row(id).next;
  }
  ++in_use_;
  Row& used = row(id);
  used.parts.store(new PartList(std::move(parts)), std::memory_order_release);
  used.space = space != 0 ? space : id;
  used.bytes = static_cast<std::uint32_t>(bytes);
  used.code = {};
  count_bytes(bytes_ + bytes);
  used.uses.store(space != 0 ? 0 : 1, std::memory_order_release);
  return id;
}

void LimitTable::free_row(LimitId id) noexcept {
  Row& freed = row(id);
  freed.data.reset();
  freed.space = 0;
  delete freed.parts.exchange(nullptr);
  freed.next = std::exchange(free_, id);
  --in_use_;
  count_bytes(bytes_ - freed.bytes);
}

void LimitTable::count_bytes(std::size_t bytes) {
  bytes_ = bytes;
  const auto is_above = [&](std::size_t quarters) {
    return bytes_ > max_bytes_ / 4 * quarters || in_use_ > kMaxLimits / 4 * quarters;
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
  if (dropped.space != space || dropped.uses.load(std::memory_order_acquire) != 0) return;
  const auto found = ids_.find(dropped.data->name);
  if (found != ids_.end() && found->second == space) ids_.erase(found);
  if (const auto lists = std::move(dropped.data->numbers)) {
    for (LimitId id : lists->first) {
      while (id != 0) free_row(std::exchange(id, row(id).next));
    }
  }
  free_row(space);
}

}  // namespace sluice::memory

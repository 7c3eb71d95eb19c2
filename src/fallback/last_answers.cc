#include "fallback/last_answers.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cassert>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/block.h"
#include "core/prefetch.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

/// A cache line.
struct LastAnswers::Entry {
  Told told;
  /// The latest denial: when its request was sent (0: never), when it ends (0: it is over), and
  /// what was denied.
  Instant denied_at = 0;
  Instant until = 0;
  std::int64_t cost = 0;
  std::int64_t patience_ns = 0;
  /// A hash of the expression of the limit that denied.
  std::uint32_t numbers = 0;
  std::uint8_t binding = 0;
  bool is_new = false;  // take_new() has not returned it.
  bool has_remained = false;

  // REQUIRES: a denial is remembered; the request takes units.
  bool covers(const Request& request) const {
    assert(until != 0 && takes(request.operation, request.cost));
    if (request.operation == Operation::kTakeUpTo) {
      return cost == 1 && patience_ns == kDefaultPatience;
    }
    // Whether a default patience is none or endless, only the algorithm knows.
    const bool as_patient = request.patience_ns == patience_ns ||
                            (request.patience_ns >= 0 && request.patience_ns < patience_ns);
    return as_patient && request.cost >= cost;
  }

  // Whether the store allows now what it denied. REQUIRES: a denial is remembered; `answer` allows.
  bool is_over(const Request& request, const Decision& answer) const;

  // Whether what was told last may be newer than an answer that arrived at `at`. Answers of one
  // batch arrive at one instant, and are recorded in their order.
  bool may_be_newer_than(Instant at, Instant since) const {
    return told.at > since && told.at != at;
  }
  void tell(const Decision& decision, Instant at, Instant since);
  Instant ends_at() const { return std::max(told.reset_at, until); }
};

/// Eight cache lines. All bytes are 0 before it is used.
struct alignas(64) LastAnswers::Set {
  std::array<Tag, kWays> tags{};  // 0: the entry is free.
  alignas(64) std::array<Entry, kWays> entries;

  // The place that a tag has if it is free: it can be prefetched before the tags are read.
  static std::size_t usual_way(Tag tag) { return (tag >> 32) % kWays; }
  // A free place for the tag, or kWays.
  std::size_t free_way(Tag tag) const {
    const std::size_t usual = usual_way(tag);
    if (tags[usual] == 0) return usual;
    return static_cast<std::size_t>(std::ranges::find(tags, Tag{0}) - tags.begin());
  }
};

struct alignas(64) LastAnswers::Shard {
  Lock lock;
  // Guarded by lock, as are its sets:
  std::size_t sets = 1;     // A power of two.
  Instant cleared_at = -1;  // When a denial was last cleared here.
  Instant quiet_from = 0;   // From then on no denial here is used while the store answers.
};

namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

Instant add_wait(Instant instant, std::chrono::nanoseconds wait) {
  Instant sum = 0;
  return __builtin_add_overflow(instant, wait.count(), &sum) ? kMaxInt64 : sum;
}

std::uint32_t numbers_hash(const Request& request) {
  const std::string& expression = request.limit->expression;
  return static_cast<std::uint32_t>(XXH3_64bits(expression.data(), expression.size()));
}

std::byte* align_up(void* mapping) {
  const auto misplaced = reinterpret_cast<std::uintptr_t>(mapping) % kHugePage;
  return static_cast<std::byte*>(mapping) + (misplaced == 0 ? 0 : kHugePage - misplaced);
}

// The most units that the part which denied can hold.
std::int64_t quota_of(const Request& request, std::size_t binding) {
  return numbers_of(request.limit->parts[binding]).quota;
}

}  // namespace

void LastAnswers::Entry::tell(const Decision& decision, Instant at, Instant since) {
  const Told next{.at = at,
                  .used = std::max<std::int64_t>(0, decision.limit - decision.remaining),
                  .reset_at = add_wait(at, decision.reset_after)};
  const auto strictness = [](const Told& one) { return std::pair(one.used, one.reset_at); };
  if (may_be_newer_than(at, since) && strictness(told) >= strictness(next)) return;
  told = next;
  is_new = true;
  has_remained = decision.remaining > 0;
}

bool LastAnswers::Entry::is_over(const Request& request, const Decision& answer) const {
  assert(until != 0 && answer.allowed);
  const bool takes_units = takes(request.operation, request.cost);
  if (numbers != numbers_hash(request)) return takes_units;
  if (takes_units && covers(request)) return true;
  // With the default patience, as much as remains is allowed at once.
  return request.limit->parts.size() == 1 && patience_ns == kDefaultPatience &&
         answer.remaining >= cost;
}

LastAnswers::LastAnswers(const Options& options)
    : keeps_all_(options.keeps == Keeps::kAll),
      hold_ns_(options.hold.count()),
      most_sets_(std::bit_floor(options.most_bytes / (kShards * sizeof(Set)))),
      shards_(std::make_unique<Shard[]>(kShards)),
      mapping_(map(most_sets_ * kLeastBytes)),
      sets_(reinterpret_cast<Set*>(align_up(mapping_.get()))) {
  static_assert(sizeof(Entry) <= 64 && sizeof(Set) * kShards == kLeastBytes);
  static_assert(std::is_aggregate_v<Set> && std::is_trivially_destructible_v<Set>);
  assert(most_sets_ > 0);
}

LastAnswers::~LastAnswers() = default;

// Room that begins at a multiple of kHugePage, and takes no memory before it is used. With pages of
// 4 KiB, most decisions would wait until the processor has found the page of their key, which takes
// 200 ns in a virtual machine.
std::unique_ptr<void, LastAnswers::Unmap> LastAnswers::map(std::size_t bytes) {
  bytes += kHugePage;
  void* const mapping =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapping == MAP_FAILED) throw std::bad_alloc();
  static_cast<void>(madvise(mapping, bytes, MADV_HUGEPAGE));  // Where the system has them.
  return {mapping, Unmap{bytes}};
}

void LastAnswers::Unmap::operator()(void* mapping) const {
  munmap(mapping, bytes);
}

// Index 0 is that of the whole limit, and the following are those of the parts of an `&`. Odd
// multipliers keep any two spaces or parts apart, and spread them over all bits.
LastAnswers::Tag LastAnswers::tag_of(const KeyName& name, std::size_t index) {
  const Tag tag =
      name.key.high ^ (name.space * 0x9E3779B97F4A7C15U) ^ (index * 0xC2B2AE3D27D4EB4FU);
  return tag | (tag == 0 ? 1 : 0);
}

// All parts of a key are in one shard.
LastAnswers::Shard& LastAnswers::shard_of(const KeyName& name) const {
  return shards_[name.key.low % kShards];
}

LastAnswers::Set& LastAnswers::set_of(const Shard& shard, Tag tag) const {
  return sets_[(tag & (shard.sets - 1)) * kShards + static_cast<std::size_t>(&shard - &shards_[0])];
}

// Null if nothing is remembered. REQUIRES: the shard's lock is held.
LastAnswers::Entry* LastAnswers::find(const KeyName& name, std::size_t index) const {
  const Tag tag = tag_of(name, index);
  Set& set = set_of(shard_of(name), tag);
  for (std::size_t way = 0; way < kWays; ++way) {
    if (set.tags[way] == tag) return &set.entries[way];
  }
  return nullptr;
}

// REQUIRES: the shard's lock is held.
LastAnswers::Entry& LastAnswers::find_or_add(const KeyName& name, std::size_t index, Instant now) {
  if (Entry* const entry = find(name, index)) return *entry;
  Shard& shard = shard_of(name);
  const Tag tag = tag_of(name, index);
  while (true) {
    Set& set = set_of(shard, tag);
    std::size_t way = set.free_way(tag);
    if (way == kWays) {
      const auto first = std::ranges::min_element(set.entries, {}, &Entry::ends_at);
      if (first->ends_at() > now && shard.sets < most_sets_) {
        grow(shard);
        continue;
      }
      way = static_cast<std::size_t>(first - set.entries.begin());
    }
    set.tags[way] = tag;
    return set.entries[way] = Entry{};
  }
}

// About half of each set's entries move to a set that was not used before.
void LastAnswers::grow(Shard& shard) {
  const std::size_t before = std::exchange(shard.sets, 2 * shard.sets);
  for (Tag index = 0; index < before; ++index) {
    Set& old = set_of(shard, index);
    Set& set = set_of(shard, index + before);
    for (std::size_t way = 0; way < kWays; ++way) {
      if (old.tags[way] == 0 || &set_of(shard, old.tags[way]) == &old) continue;
      set.tags[way] = std::exchange(old.tags[way], 0);
      set.entries[way] = old.entries[way];
    }
  }
}

void LastAnswers::record(const KeyName& name, const Request& request, const Decision& told,
                         std::optional<Instant> sent, Instant at, Instant since) {
  const bool takes_units = sent && takes(request.operation, request.cost);
  const std::lock_guard lock(shard_of(name).lock);
  const bool is_denial = takes_units && !told.allowed && told.retry_after != kNever &&
                         request.operation == Operation::kTake && *sent > shard_of(name).cleared_at;
  Entry* entry = find(name);
  if (entry == nullptr) {
    if (!keeps_all_ && !is_denial) return;
    entry = &find_or_add(name, 0, at);
  }
  const bool may_be_old = entry->may_be_newer_than(at, since);
  entry->tell(told, at, since);
  if (is_denial) {
    note_denial(shard_of(name), *sent);
    entry->denied_at = *sent;
    entry->until = add_wait(*sent, told.retry_after);
    entry->cost = request.cost;
    entry->patience_ns = request.patience_ns;
    entry->numbers = numbers_hash(request);
    entry->binding = told.binding;
  } else if (entry->until != 0 && sent && told.allowed && !may_be_old &&
             entry->is_over(request, told)) {
    entry->until = 0;
  }
  const std::size_t parts = request.limit->parts.size();
  if (parts == 1 || !keeps_all_) return;
  for (std::size_t part = 0; part < parts; ++part) {
    const bool knows_all = request.parts.size() == parts;
    if (!knows_all && part != told.binding) continue;
    find_or_add(name, part + 1, at).tell(knows_all ? request.parts[part] : told, at, since);
  }
}

void LastAnswers::note_denial(Shard& shard, Instant now) const {
  shard.quiet_from = std::max(shard.quiet_from, now + std::max(hold_ns_, kSecondNs));
}

bool LastAnswers::was_denied(const KeyName& name, Instant now) const {
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.lock);
  if (now >= shard.quiet_from) {
    const Tag tag = tag_of(name, 0);
    const Set& set = set_of(shard, tag);
    prefetch(&set.tags, 1);
    prefetch(&set.entries[Set::usual_way(tag)], 1);
    return false;
  }
  const Entry* const entry = find(name);
  return entry != nullptr && entry->denied_at != 0;
}

bool LastAnswers::denies(const KeyName& name, const Request& request, Instant now,
                         Decision& decision, Answers store) const {
  assert(request.operation == Operation::kTake || request.operation == Operation::kTakeUpTo);
  if (request.cost == 0) return false;
  const std::lock_guard lock(shard_of(name).lock);
  const Entry* const entry = find(name);
  if (entry == nullptr || entry->until <= now || !entry->covers(request) ||
      entry->numbers != numbers_hash(request)) {
    return false;
  }
  // What is above the limit has to ask: its wait may have no end. A store that answers is asked
  // again after a while.
  const std::int64_t quota = quota_of(request, entry->binding);
  if (request.operation == Operation::kTake && request.cost > quota) return false;
  if (store == Answers::kYes && now - entry->denied_at >= hold_ns_) return false;
  decision = {
      .source = Source::kCache,
      .binding = entry->binding,
      .limit = quota,
      .remaining = std::clamp<std::int64_t>(quota - entry->told.used, 0, request.cost - 1),
      .retry_after = std::chrono::nanoseconds(entry->until - now),
      .reset_after = std::chrono::nanoseconds(std::max(entry->told.reset_at, entry->until) - now)};
  return true;
}

void LastAnswers::ask_again(const KeyName& name, Instant now) {
  Shard& shard = shard_of(name);
  const std::lock_guard lock(shard.lock);
  shard.cleared_at = std::max(shard.cleared_at, now);
  note_denial(shard, now);
  if (Entry* const entry = find(name)) entry->denied_at = std::max<Instant>(1, now - hold_ns_);
}

void LastAnswers::clear(const KeyName& name, Instant now) {
  ask_again(name, now);
  const std::lock_guard lock(shard_of(name).lock);
  if (Entry* const entry = find(name)) entry->until = 0;
}

LastAnswers::ToldParts LastAnswers::take_new(const KeyName& name, std::size_t parts) {
  ToldParts told;
  const std::lock_guard lock(shard_of(name).lock);
  for (std::size_t part = 0; part < parts; ++part) {
    Entry* const entry = find(name, parts == 1 ? 0 : part + 1);
    if (entry == nullptr || !std::exchange(entry->is_new, false)) continue;
    told[part] = NewlyTold{entry->told, entry->has_remained};
  }
  return told;
}

}  // namespace sluice

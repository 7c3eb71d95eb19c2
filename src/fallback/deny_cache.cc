#include "fallback/deny_cache.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <mutex>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/lock.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

/// A denial. Its tag, the rest of its key, stands beside it.
struct DenyCache::Entry {
  std::uint64_t low = 0;
  /// A hash of the limit's expression.
  std::uint64_t numbers = 0;
  std::int64_t cost = 0;
  std::int64_t patience_ns = 0;
  Instant sent = 0;
  Instant until = 0;
  Instant reset_at = 0;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;
  std::uint8_t binding = 0;

  bool covers(const Request& request) const {
    if (request.operation == Operation::kTakeUpTo) {
      return cost == 1 && patience_ns == kDefaultPatience;
    }
    // Whether a default patience is none or endless, only the algorithm knows. What is above the
    // limit has to ask: its wait may have no end.
    const bool as_patient = request.patience_ns == patience_ns ||
                            (request.patience_ns >= 0 && request.patience_ns < patience_ns);
    return as_patient && request.cost >= cost && request.cost <= limit;
  }
};

/// The denials of a few keys.
struct DenyCache::Set {
  Lock lock;
  /// When something was last cleared here: of what was sent before, no denial is remembered.
  Instant cleared_at = -1;
  std::array<Entry, kWays> entries;
};

/// Where a key's denial would stand.
struct DenyCache::Place {
  explicit Place(const Name& name)
      : tag(name.key.high | (name.key.high == 0 ? 1 : 0)),
        // An odd multiplier keeps any two spaces apart, and spreads them over all bits.
        low(name.key.low ^ (name.space * 0x9E3779B97F4A7C15U)),
        set(low % kSets) {}

  std::uint64_t tag;  // Not 0.
  std::uint64_t low;
  std::size_t set;
};

namespace {

Instant add_wait(Instant instant, std::chrono::nanoseconds wait) {
  Instant sum = 0;
  return __builtin_add_overflow(instant, wait.count(), &sum) ? kMaxInt64 : sum;
}

std::uint64_t numbers_of(const Request& request) {
  const std::string& expression = request.limit->expression;
  return XXH3_64bits(expression.data(), expression.size());
}

}  // namespace

DenyCache::DenyCache(std::chrono::nanoseconds hold)
    : hold_ns_(hold.count()),
      tags_(std::make_unique<Tag[]>(kEntries)),
      sets_(std::make_unique<Set[]>(kSets)) {}

DenyCache::~DenyCache() = default;

// The key's entry, or null. REQUIRES: the set's lock is held.
DenyCache::Entry* DenyCache::find(const Place& place) const {
  for (std::size_t way = 0; way < kWays; ++way) {
    Entry& entry = sets_[place.set].entries[way];
    const Tag& tag = tags_[place.set * kWays + way];
    if (tag.load(std::memory_order_relaxed) == place.tag && entry.low == place.low) return &entry;
  }
  return nullptr;
}

bool DenyCache::knows(const Name& name) const {
  const Place place(name);
  const Tag* const tags = &tags_[place.set * kWays];
  return std::any_of(tags, tags + kWays, [&](const Tag& tag) {
    return tag.load(std::memory_order_relaxed) == place.tag;
  });
}

bool DenyCache::denies(const Name& name, const Request& request, Instant now, Decision& decision,
                       Answers store) const {
  assert(request.operation == Operation::kTake || request.operation == Operation::kTakeUpTo);
  if (request.cost == 0 || !knows(name)) return false;
  const Place place(name);
  const std::uint64_t numbers = numbers_of(request);
  const std::lock_guard lock(sets_[place.set].lock);
  const Entry* const entry = find(place);
  if (entry == nullptr || entry->until <= now || entry->numbers != numbers ||
      !entry->covers(request)) {
    return false;
  }
  // A store that answers is asked again after a while.
  if (store == Answers::kYes && now - entry->sent >= hold_ns_) return false;
  decision = {
      .source = Source::kCache,
      .binding = entry->binding,
      .limit = entry->limit,
      .remaining = std::min(entry->remaining, request.cost - 1),
      .retry_after = std::chrono::nanoseconds(entry->until - now),
      .reset_after = std::chrono::nanoseconds(std::max(entry->reset_at, entry->until) - now)};
  return true;
}

void DenyCache::remember(const Name& name, const Request& request, Instant sent,
                         const Decision& denial) {
  if (denial.retry_after == kNever) return;
  const Place place(name);
  Set& set = sets_[place.set];
  const std::uint64_t numbers = numbers_of(request);
  const std::lock_guard lock(set.lock);
  if (sent <= set.cleared_at) return;
  Entry* entry = find(place);
  // The denial that has ended or ends first gives way; an entry that is not used ended long ago.
  if (entry == nullptr) entry = &*std::ranges::min_element(set.entries, {}, &Entry::until);
  *entry = {.low = place.low,
            .numbers = numbers,
            .cost = request.cost,
            .patience_ns = request.patience_ns,
            .sent = sent,
            .until = add_wait(sent, denial.retry_after),
            .reset_at = add_wait(sent, denial.reset_after),
            .limit = denial.limit,
            .remaining = denial.remaining,
            .binding = denial.binding};
  const auto way = static_cast<std::size_t>(entry - set.entries.data());
  tags_[place.set * kWays + way].store(place.tag, std::memory_order_relaxed);
}

void DenyCache::refute(const Name& name, const Request& request, Instant sent) {
  if (request.cost == 0 || !knows(name)) return;
  const Place place(name);
  const std::uint64_t numbers = numbers_of(request);
  const std::lock_guard lock(sets_[place.set].lock);
  Entry* const entry = find(place);
  const bool is_refuted =
      entry != nullptr && entry->sent < sent && entry->numbers == numbers && entry->covers(request);
  if (is_refuted) *entry = {.low = place.low};
}

bool DenyCache::denied_last(const Name& name, const Request& request) const {
  if (request.cost == 0 || !knows(name)) return false;
  const Place place(name);
  const std::uint64_t numbers = numbers_of(request);
  const std::lock_guard lock(sets_[place.set].lock);
  const Entry* const entry = find(place);
  return entry != nullptr && entry->until != 0 && entry->numbers == numbers &&
         entry->covers(request);
}

void DenyCache::clear(const Name& name, Instant now) {
  const Place place(name);
  Set& set = sets_[place.set];
  const std::lock_guard lock(set.lock);
  set.cleared_at = std::max(set.cleared_at, now);
  // It is still a key that knows() knows.
  if (Entry* const entry = find(place)) *entry = {.low = place.low};
}

}  // namespace sluice

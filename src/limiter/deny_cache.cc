#include "limiter/deny_cache.h"

#include <algorithm>
#include <atomic>
#include <mutex>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/lock.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice {

/// A denial. Its tag, the rest of its key, stands in the set.
struct DenyCache::Entry {
  std::uint64_t low = 0;
  /// A hash of the limit's expression.
  std::uint64_t numbers = 0;
  std::int64_t cost = 0;
  std::int64_t patience_ns = 0;
  Instant until = 0;
  Instant reset_at = 0;
  std::int64_t limit = 0;
  std::int64_t remaining = 0;

  bool covers(const Request& request) const {
    // Whether a default patience is none or endless, only the algorithm knows. What is above the
    // limit has to ask: its wait may have no end.
    const bool as_patient = request.patience_ns == patience_ns ||
                            (request.patience_ns >= 0 && request.patience_ns < patience_ns);
    return as_patient && request.cost >= cost && request.cost <= limit;
  }
};

/// The places of a few keys. Its first line is all that is read where nothing is remembered of the
/// one asked about.
struct alignas(64) DenyCache::Set {
  /// The upper half of each entry's key, 0 for none. Written under the lock, like all else.
  std::array<std::atomic<std::uint64_t>, kWays> tags{};
  /// When the last of its denials ends.
  std::atomic<Instant> ends{0};
  /// When something was last cleared here: of what was sent before, no denial is remembered.
  Instant cleared_at = -1;
  Lock lock;
  std::array<Entry, kWays> entries;

  /// Whether it may hold the key. The answer may be old by the time it is used.
  bool may_hold(const Place& place) const {
    return std::ranges::any_of(
        tags, [&](const auto& tag) { return tag.load(std::memory_order_relaxed) == place.high; });
  }

  /// The way in which the key is, else kWays. REQUIRES: the lock is held.
  std::size_t find(const Place& place) const {
    std::size_t way = 0;
    while (way < kWays && (tags[way].load(std::memory_order_relaxed) != place.high ||
                           entries[way].low != place.low)) {
      ++way;
    }
    return way;
  }

  /// The key's own way, else the one whose denial has ended or ends first; that of a way that is
  /// not used ended long ago. REQUIRES: the lock is held.
  std::size_t place_for(const Place& place) const {
    const std::size_t own = find(place);
    if (own < kWays) return own;
    const auto first = std::ranges::min_element(entries, {}, &Entry::until);
    return static_cast<std::size_t>(first - entries.begin());
  }

  void empty(std::size_t way) {
    tags[way].store(0, std::memory_order_relaxed);
    entries[way] = {};
  }
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

DenyCache::DenyCache()
    : marks_(std::make_unique<Mark[]>(kSets / kSetsPerMark)),
      sets_(std::make_unique<Set[]>(kSets)) {}

DenyCache::~DenyCache() = default;

bool DenyCache::denies(const Name& name, const Request& request, Instant now, Decision& decision) {
  if (request.cost == 0 || !may_deny(name)) return false;
  const Place place(name);
  Set& set = sets_[place.set];
  if (!set.may_hold(place)) {
    if (set.ends.load(std::memory_order_relaxed) <= now) forget_ended(place, now);
    return false;
  }
  const std::uint64_t numbers = numbers_of(request);
  const std::lock_guard lock(set.lock);
  const std::size_t way = set.find(place);
  if (way == kWays) return false;
  const Entry& entry = set.entries[way];
  if (entry.until <= now || entry.numbers != numbers || !entry.covers(request)) return false;
  decision = {.source = Source::kCache,
              .limit = entry.limit,
              .remaining = std::min(entry.remaining, request.cost - 1),
              .retry_after = std::chrono::nanoseconds(entry.until - now),
              .reset_after = std::chrono::nanoseconds(std::max(entry.reset_at, entry.until) - now)};
  return true;
}

void DenyCache::remember(const Name& name, const Request& request, Instant sent,
                         const Decision& denial) {
  if (denial.retry_after == kNever) return;
  const Place place(name);
  const Entry entry{.low = place.low,
                    .numbers = numbers_of(request),
                    .cost = request.cost,
                    .patience_ns = request.patience_ns,
                    .until = add_wait(sent, denial.retry_after),
                    .reset_at = add_wait(sent, denial.reset_after),
                    .limit = denial.limit,
                    .remaining = denial.remaining};
  Set& set = sets_[place.set];
  const std::lock_guard lock(set.lock);
  if (sent <= set.cleared_at) return;
  const std::size_t way = set.place_for(place);
  set.tags[way].store(place.high, std::memory_order_relaxed);
  set.entries[way] = entry;
  set.ends.store(std::max(set.ends.load(std::memory_order_relaxed), entry.until),
                 std::memory_order_relaxed);
  Mark& mark = mark_of(place);
  if ((mark.load(std::memory_order_relaxed) & place.bit()) == 0) {
    mark.fetch_or(place.bit(), std::memory_order_release);
  }
}

void DenyCache::clear(const Name& name, Instant now) {
  const Place place(name);
  Set& set = sets_[place.set];
  const std::lock_guard lock(set.lock);
  set.cleared_at = std::max(set.cleared_at, now);
  const std::size_t way = set.find(place);
  if (way < kWays) set.empty(way);
}

void DenyCache::forget_ended(const Place& place, Instant now) {
  Set& set = sets_[place.set];
  const std::lock_guard lock(set.lock);
  if (set.ends.load(std::memory_order_relaxed) > now) return;
  for (std::size_t way = 0; way < kWays; ++way) set.empty(way);
  mark_of(place).fetch_and(~place.bit(), std::memory_order_release);
}

}  // namespace sluice

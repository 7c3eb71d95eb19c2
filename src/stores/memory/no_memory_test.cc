// The system has no memory. Whichever allocation of a key fails, the store makes a decision, and
// has charged what the decision says. Where one of a limit fails, nothing has changed, or the
// process ends. This program replaces malloc for the code that is linked into it, and operator new.

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "testing/failing_new.h"
#include "testing/memory_keys.h"

namespace {

// How many more allocations succeed, and how many fail after those; inactive if that is 0.
std::atomic<long> succeeding{0};
std::atomic<long> failing{0};

bool fails() {
  if (failing == 0) return false;
  if (succeeding > 0) {
    --succeeding;
    return false;
  }
  --failing;
  return true;
}

}  // namespace

// NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): the linker's names.
extern "C" {
void* __real_malloc(std::size_t bytes);
int __real_posix_memalign(void** block, std::size_t alignment, std::size_t bytes);

void* __wrap_malloc(std::size_t bytes) {
  return fails() ? nullptr : __real_malloc(bytes);
}
int __wrap_posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  return fails() ? ENOMEM : __real_posix_memalign(block, alignment, bytes);
}
}
// NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming)

namespace sluice::memory {
namespace {

struct Failure {
  long after = 0;
  long count = 1;

  // When the rings have grown a few times.
  void begin_in(int round) const {
    if (round != 8) return;
    succeeding = after;
    failing = count;
  }
};

// Whether what is asked is allowed. Counts what is denied for lack of memory.
template <class Ask>
bool is_done(int& refused, const Ask& ask) {
  try {
    return ask().allowed;
  } catch (const StoreError&) {
    ++refused;
    return false;
  }
}

// One limit and its few keys. The store may forget nothing, so a request without memory is denied.
struct Ledger {
  LimitedKeys keys;
  std::vector<std::int64_t> charged = {0, 0, 0};

  void must_balance(std::int64_t limit, Instant now) {
    for (std::size_t i = 0; i < charged.size(); ++i) {
      ASSERT_EQ(keys.peek(key_name(i), now).remaining, limit - charged[i]) << "key " << i;
    }
  }
};

constexpr std::int64_t kLimit = 400;

// Takes from every key, alone and in lists, while allocations fail, and records what was charged.
// Returns how many requests were denied for lack of memory.
int ask(MemoryStore& store, std::vector<Ledger>& ledgers, const Failure& failure) {
  int refused = 0;
  Instant now = kStart;
  for (int round = 0; round < 60; ++round) {
    failure.begin_in(round);
    const std::size_t i = static_cast<std::size_t>(round) % 3;
    const std::string name = key_name(i);
    now += 1000;
    for (auto& ledger : ledgers) {
      if (is_done(refused, [&] { return ledger.keys.take(name, now); })) ++ledger.charged[i];
    }
    std::vector<Request> list;
    for (auto& ledger : ledgers) list.push_back(ledger.keys.request(name, 2));
    if (!is_done(refused, [&] { return store.decide_all(list, now + 1); })) continue;
    for (auto& ledger : ledgers) ledger.charged[i] += 2;
  }
  failing = 0;
  for (auto& ledger : ledgers) ledger.must_balance(kLimit, now + 1);
  return refused;
}

int ask_new_store(const Failure& failure) {
  MemoryOptions options = small_store();
  options.table.forget = false;
  MemoryStore store(options);
  std::vector<Ledger> ledgers;
  for (const auto* limit :
       {"token_bucket 400/1h", "sliding_log 400/1h", "sliding_counter 400/1h",
        "fixed_window 400/1h anchor=first & sliding_log 400/1d & token_bucket 400/1h"}) {
    ledgers.push_back({LimitedKeys(store, limit)});
  }
  // The same keys with other numbers, for which the keys need a record.
  const LimitedKeys opened(store, varying("token_bucket 1/1h"));
  ledgers.push_back({LimitedKeys(store, varying("token_bucket 400/1h"))});
  const int refused = ask(store, ledgers, failure);
  EXPECT_EQ(store.counters().evicted, 0U);
  return refused;
}

// Permits, blocks and charges of several keys while allocations fail. Denied requests change
// nothing. Returns how many requests were denied.
int ask_for_the_rest(const Failure& failure) {
  MemoryOptions options = small_store();
  options.table.forget = false;
  MemoryStore store(options);
  LimitedKeys permits(store, "concurrency 400");
  LimitedKeys limits(store, "sliding_log 400/1h & token_bucket 400/1h");
  std::vector<std::int64_t> held(3);
  std::vector<std::int64_t> used(3);
  std::vector<bool> blocked(3);
  int refused = 0;
  const auto done = [&](const auto& ask) { return is_done(refused, ask); };
  for (int round = 0; round < 90; ++round) {
    failure.begin_in(round);
    const std::size_t i = static_cast<std::size_t>(round) % 3;
    const std::string name = key_name(i);
    const auto id = static_cast<PermitId>(round) + 1;
    const Instant now = kStart + round;
    if (done([&] { return permits.permit(Operation::kTake, name, now, id); })) {
      ++held[i];
      if (round % 4 == 3) {
        EXPECT_TRUE(permits.permit(Operation::kRenew, name, now, id).allowed);
      }
      if (round % 5 == 4) {
        EXPECT_TRUE(permits.permit(Operation::kRelease, name, now, id).allowed);
        --held[i];
      }
    }
    if (done([&] { return limits.charge(name, now, 2); })) used[i] += 2;
    if (round % 11 == 10 && done([&] { return limits.block(name, now, kHourNs); })) {
      blocked[i] = true;
    }
  }
  failing = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    const Instant now = kStart + 90;
    EXPECT_EQ(permits.peek(key_name(i), now).remaining, 400 - held[i]) << "key " << i;
    const Decision stands = limits.peek(key_name(i), now);
    EXPECT_EQ(stands.remaining, blocked[i] ? 0 : 400 - used[i]) << "key " << i;
    EXPECT_EQ(limits.take(key_name(i), now).allowed, !blocked[i]) << "key " << i;
  }
  return refused;
}

// Two in succession, since a ring that cannot grow ahead tries to allocate just enough; or all from
// some point on.
TEST(NoMemory, AnyAllocationMayFail) {
  struct Row {
    int (*ask)(const Failure& failure);
    long starts;
    long failures;
    int least_refused;
  };
  for (const Row& row :
       {Row{ask_new_store, 60, 2, 20}, Row{ask_new_store, 20, 1'000'000, 1000},
        Row{ask_for_the_rest, 40, 2, 5}, Row{ask_for_the_rest, 20, 1'000'000, 195}}) {
    EXPECT_EQ(row.ask({.count = 0}), 0);
    int refused = 0;
    for (long after = 0; after < row.starts; ++after) {
      SCOPED_TRACE(after);
      refused += row.ask({.after = after, .count = row.failures});
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(refused, row.least_refused);
  }
}

// Of a limit of which a key has used 7 units. A caller who opens it anew finds the key.
TEST(NoMemory, ALimitIsReplacedByAnotherKindOrTheProcessEnds) {
  MemoryStore store(small_store());
  LimitedKeys keys(store, "token_bucket 400/1h", "named");
  keys.take("a", kStart, 7);
  const LimitDefinition successor = varying("fixed_window 400/1h", "named");
  std::shared_ptr<Space> held;
  const auto replace = [&] { held = store.replace_space(keys.space(), successor); };
  const auto is_whole = [&](bool is_done) {
    if (!is_done) {
      if (LimitedKeys(store, keys.limit()).peek("a", kStart).remaining != 393) return false;
      replace();
    }
    return LimitedKeys(store, successor).peek("a", kStart).remaining == 400;
  };
  EXPECT_GT(end_without_memory(replace, is_whole), 3);
}

// By these it denies, and so many other keys do by theirs that there is no row for them yet.
TEST(NoMemory, AKeyIsChargedByOtherNumbersOrTheProcessEnds) {
  constexpr std::int64_t kRowsAtOnce = 256;
  MemoryStore store(small_store());
  const auto numbers = [](std::int64_t count) {
    const std::string each = std::to_string(count) + "/1h";
    return varying("fixed_window " + each + " & sliding_counter " + each);
  };
  LimitedKeys keys(store, numbers(400));
  keys.take("a", kStart, 7);
  for (std::int64_t i = 0; i < kRowsAtOnce; ++i) {
    LimitedKeys(store, numbers(1'000 + i)).take("k" + std::to_string(i), kStart, 1'000 + i);
  }
  LimitedKeys others(store, numbers(8));
  const auto take = [&] { others.take("a", kStart); };
  const auto is_whole = [&](bool is_done) {
    if (!is_done) {
      if (keys.peek("a", kStart).remaining != 393) return false;
      take();
    }
    return keys.peek("a", kStart).remaining == 392;
  };
  EXPECT_GT(end_without_memory(take, is_whole), 0);
}

}  // namespace
}  // namespace sluice::memory

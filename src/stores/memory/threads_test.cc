// Several threads use one store: growth, eviction, spaces opened and forgotten. What any store
// promises to threads is in tests/conformance.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "testing/memory_keys.h"
#include "testing/on_threads.h"
#include "testing/snapshots.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kThreads = 4;

// Every thread uses every key, in a different order and in batches; meanwhile the table grows, and
// forgets no key.
TEST(Threads, AdmitExactlyTheLimitWhileTheTableGrows) {
  for (const auto* limit : {"token_bucket 5/1h", "sliding_log 5/1h",
                            "fixed_window 5/1h anchor=first & sliding_counter 6/1h"}) {
    SCOPED_TRACE(limit);
    constexpr std::size_t kKeys = 2000;
    constexpr std::size_t kBatch = 50;
    MemoryStore store(
        {.max_bytes = std::size_t{1} << 26, .table = {.secret = HashSecret::fixed()}});
    LimitedKeys keys(store, limit);
    std::vector<std::string> names;
    for (std::uint64_t i = 0; i < kKeys; ++i) names.push_back(key_name(i));
    std::vector<std::atomic<int>> admitted(kKeys);
    on_threads(kThreads, [&](std::size_t thread) {
      constexpr std::array<std::size_t, kThreads> kStrides{1, 7, 11, 1999};
      std::vector<Request> requests(kBatch);
      std::vector<Decision> decisions(kBatch);
      for (std::size_t from = 0; from < 2 * kKeys; from += kBatch) {
        const auto index = [&](std::size_t i) { return (from + i) * kStrides[thread] % kKeys; };
        for (std::size_t i = 0; i < kBatch; ++i) requests[i] = keys.request(names[index(i)]);
        store.decide(requests, kStart, decisions);
        for (std::size_t i = 0; i < kBatch; ++i) {
          admitted[index(i)] += decisions[i].allowed ? 1 : 0;
        }
      }
    });
    for (std::size_t i = 0; i < kKeys; ++i) ASSERT_EQ(admitted[i], 5) << "key " << i;
    EXPECT_EQ(store.table().size(), kKeys);
    EXPECT_EQ(store.counters().evicted, 0U);
  }
}

// Some threads block, charge and take what remains while others take.
TEST(Threads, BlockAndTakeWhatRemainsOfOneKey) {
  MemoryStore store(small_store());
  for (const auto* limit : {"token_bucket 4000/1h", "sliding_log 4000/1h & fixed_window 4000/1d"}) {
    LimitedKeys keys(store, limit);
    std::atomic<std::int64_t> taken{0};
    on_threads(kThreads, [&](std::size_t thread) {
      for (int i = 0; i < 1000; ++i) {
        if (thread == 0) {
          keys.block("a", kStart + i, 1);
        } else if (thread == 1) {
          taken += keys.take_up_to("a", kStart + i, 3).taken;
        } else if (thread == 2) {
          taken += keys.charge("a", kStart + i).allowed ? 1 : 0;
        } else {
          taken += keys.take("a", kStart + i).allowed ? 1 : 0;
        }
      }
    });
    const Instant after = kStart + 1001;
    EXPECT_EQ(keys.peek("a", after).remaining, std::max<std::int64_t>(0, 4000 - taken));
    EXPECT_EQ(keys.take_up_to("a", after, 9).allowed, taken < 4000);
  }
}

// Far more keys than there is room for, in two spaces that share the budget.
TEST(Threads, EvictNoKeyThatDenies) {
  MemoryStore store(small_store());
  LimitedKeys bucket(store, "token_bucket 2/1h");
  LimitedKeys log(store, "sliding_log 3/1h & fixed_window 50/1h");
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(bucket.take("spent", kStart).allowed);
  std::atomic<std::size_t> most{0};
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](std::size_t thread) {
    std::mt19937_64 random(thread);
    for (int i = 0; i < 2000; ++i) {
      const std::string name = key_name(random() % 30'000);
      const std::string second = key_name(random() % 30'000);
      if (i % 3 == 0) {
        store.decide_all(std::array{bucket.request(name), log.request(second)}, kStart);
      } else if (i % 50 == 1) {
        log.reset(name, kStart);
      } else {
        bucket.take(name, kStart);
        log.take(second, kStart);
      }
      if (bucket.take("spent", kStart).allowed) ++wrong;
      std::size_t seen = most;
      const std::size_t used = store.used_bytes();
      while (used > seen && !most.compare_exchange_weak(seen, used)) {
      }
    }
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(store.counters().evicted, 0U);
  EXPECT_LE(most, MemoryStore::kLeastBytes);
}

TEST(Threads, OpenOneSpaceForOneName) {
  MemoryStore store(small_store());
  for (int round = 0; round < 20; ++round) {
    const std::string name = "n" + std::to_string(round);
    std::array<std::shared_ptr<Space>, kThreads> opened;
    std::atomic<int> admitted{0};
    on_threads(kThreads, [&](std::size_t thread) {
      LimitedKeys keys(store, "token_bucket 3/1h", name);
      opened[thread] = keys.space();
      admitted += keys.take("a", kStart).allowed ? 1 : 0;
    });
    for (const auto& space : opened) EXPECT_EQ(space, opened[0]);
    EXPECT_EQ(admitted, 3);
  }
}

// Threads open spaces for a few keys each, let them go, and open some of them again, while others
// use a space whose numbers vary and change.
TEST(Threads, OpenAndForgetSpaces) {
  MemoryStore store({.max_bytes = MemoryStore::kLeastBytes, .table = {}});
  const LimitedKeys held(store, varying("token_bucket 1/1s"));
  std::atomic<int> wrong{0};
  on_threads(kThreads, [&](std::size_t thread) {
    for (std::uint64_t i = 0; i < 3000; ++i) {
      const Instant now = store.now();
      const std::string name = "n" + std::to_string(i % 50) + "." + std::to_string(thread % 2);
      // Some limits change their numbers, and some keys are fresh at once.
      const std::string count = std::to_string(1 + i % 3);
      LimitedKeys keys(store, "token_bucket 1/1us burst=" + count, name);
      keys.take(key_name(i % 7), now);
      LimitedKeys day(store, "token_bucket 1/1d", std::to_string(thread) + "." + name);
      if (i < 50) wrong += day.take("a", now).allowed ? 0 : 1;
      if (i >= 50) wrong += day.take("a", now).allowed ? 1 : 0;
      const std::string numbers = "token_bucket 1/1ms burst=" + std::to_string(1 + i % 100);
      LimitedKeys(store, varying(numbers)).take(key_name(i % 1000), now);
    }
  });
  EXPECT_EQ(wrong, 0);
}

// Limits come and go, keys are added and reset, and limits change their algorithm.
TEST(Threads, SnapshotsAreWrittenWhileOthersDecide) {
  MemoryStore store(small_store());
  LimitedKeys lasting(store, "token_bucket 1000000/1w", "lasting");
  constexpr std::uint64_t kKeys = 500;
  for (std::uint64_t i = 0; i < kKeys; ++i) lasting.take(key_name(i), kStart);
  std::atomic<std::size_t> deciding{kThreads - 1};
  on_threads(kThreads, [&](std::size_t thread) {
    if (thread > 0) {
      std::mt19937 random(static_cast<unsigned>(thread));
      for (int i = 0; i < 300; ++i) {
        const std::string name = "passing" + std::to_string(thread);
        LimitedKeys passing(store, i % 2 == 0 ? "sliding_log 9/1h" : "fixed_window 9/1h", name);
        for (int k = 0; k < 20; ++k) {
          passing.take(key_name(random() % 1'000), kStart);
          lasting.take(key_name(random() % kKeys), kStart);
        }
      }
      --deciding;
      return;
    }
    std::uint64_t before = kKeys;
    bool last = false;
    do {
      last = deciding == 0;
      MemoryStore again(small_store());
      load(again, kStart, written(store, kStart));
      LimitedKeys same(again, "token_bucket 1000000/1w", "lasting");
      std::uint64_t charged = 0;
      for (std::uint64_t i = 0; i < kKeys; ++i) {
        const auto remaining = same.peek(key_name(i), kStart).remaining;
        ASSERT_LT(remaining, 1'000'000) << i;
        charged += static_cast<std::uint64_t>(1'000'000 - remaining);
      }
      ASSERT_GE(charged, before);
      before = charged;
    } while (!last);
    EXPECT_EQ(before, kKeys + (kThreads - 1) * 300 * 20);
  });
}

// A key that is copied part by part grows and is forgotten meanwhile.
TEST(Threads, SnapshotsOfALargeKeyAreWholeWhileItChanges) {
  MemoryStore store;
  LimitedKeys logs(store, "sliding_log 20000/1w & sliding_log 30000/1w & token_bucket 40000/1w");
  Instant now = kStart;
  for (int i = 0; i < 18'000; ++i) logs.take("large", ++now);
  std::atomic<bool> is_over = false;
  on_threads(kThreads, [&](std::size_t thread) {
    if (thread > 0) {
      for (Instant at = now; !is_over; ++at) {
        const std::int64_t cost = at % 5'000 == 0 ? 0 : 1;
        if (cost == 0 && thread == 1) logs.reset("large", at);
        logs.take("large", at, cost);
      }
      return;
    }
    for (int i = 0; i < 20; ++i) {
      MemoryStore again;
      load(again, now, written(store, now));
    }
    is_over = true;
  });
}

}  // namespace
}  // namespace sluice::memory

// The physical memory that a store takes. A sanitizer has memory of its own, so this is a program
// of the build without one.

#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

// Of this process.
std::size_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  std::size_t pages = 0;
  statm >> pages >> pages;
  return pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

// The same, without what earlier stores have left in the heap.
std::size_t resident_before() {
  malloc_trim(0);
  return resident_bytes();
}

std::string numbered(std::size_t number) {
  return "token_bucket 1/1d burst=" + std::to_string(number + 1);
}

TEST(Resident, LimitsAndKeysTakeNoMoreThanTheirBytes) {
  const std::size_t before = resident_bytes();
  MemoryStore store({.max_bytes = kMiB, .table = {}});
  std::size_t opened = 0;
  const auto open_until_refused = [&] {
    for (;; ++opened) {
      LimitedKeys keys(store, numbered(opened));
      keys.take("a", store.now(), static_cast<std::int64_t>(opened) + 1);
    }
  };
  EXPECT_THROW(open_until_refused(), StoreError);
  for (std::size_t i = 0; i < 200'000; ++i) {
    LimitedKeys keys(store, numbered(i % opened));
    keys.take(key_name(i), store.now());
  }
  EXPECT_LE(resident_bytes() - before, kMiB * 11 / 10 + 8 * kMiB);
}

// A state of three integers, which has a record for itself.
TEST(Resident, KeysWithRecordsTakeNoMoreThanTheirBytes) {
  constexpr std::size_t kMost = 128 * kMiB;
  const std::size_t before = resident_bytes();
  MemoryStore store({.max_bytes = kMost, .table = {}});
  LimitedKeys keys(store, "sliding_counter 10/1d");
  for (std::size_t i = 0; store.counters().evicted < 100'000; ++i) {
    keys.take(key_name(i), kStart);
  }
  EXPECT_LE(resident_bytes() - before, kMost / 20 * 21);
}

// Small records, of which a tenth remain since their keys deny, and then large ones in the place of
// the others.
TEST(Resident, LargeRecordsInThePlaceOfSmallOnesTakeNoMoreThanTheirBytes) {
  constexpr std::size_t kMost = 32 * kMiB;
  constexpr std::int64_t kEntries = 100;
  for (const char* small : {"sliding_log 10/1d", "concurrency 10"}) {
    const std::size_t before = resident_before();
    MemoryStore store({.max_bytes = kMost, .table = {}});
    LimitedKeys keys(store, small, "small");
    for (std::size_t i = 0; store.counters().evicted < 20'000; ++i) {
      const std::string key = key_name(i);
      keys.permit(Operation::kTake, key, kStart, i + 1);
      if (i % 10 == 0) keys.block(key, kStart, kDayNs);
    }
    LimitedKeys logs(store, "sliding_log 1000/1d", "large");
    for (std::size_t i = 0; i < kMost / sizeof(RingEntry) / kEntries; ++i) {
      for (Instant n = 0; n < kEntries; ++n) logs.take(key_name(i), kStart + n);
    }
    EXPECT_LE(resident_bytes() - before, kMost * 11 / 10 + 8 * kMiB) << small;
  }
}

// Nine of ten keys become fresh, and the others are asked 100,000 times a second for a minute.
TEST(Resident, MemoryOfKeysWithRecordsThatBecomeFreshIsGivenBack) {
  constexpr std::size_t kKeys = 1'000'000;
  for (const char* algorithm : {"sliding_counter", "sliding_log"}) {
    const std::size_t before = resident_before();
    MemoryStore store({.max_bytes = 1024 * kMiB, .table = {}});
    LimitedKeys passing(store, algorithm + std::string(" 10/1s"), "passing");
    LimitedKeys lasting(store, algorithm + std::string(" 10/1d"), "lasting");
    for (std::size_t i = 0; i < kKeys; ++i) {
      (i % 10 == 0 ? lasting : passing).take(key_name(i), kStart);
    }
    const std::size_t full = resident_bytes() - before;
    Instant now = kStart;
    for (std::size_t i = 0; i < 6'000'000; ++i) {
      lasting.take(key_name(i % (kKeys / 10) * 10), now += kSecondNs / 100'000);
    }
    EXPECT_LE(resident_bytes() - before, full / 4) << algorithm;
    EXPECT_EQ(store.counters().evicted, 0U);
  }
}

// Uses up each of so many keys, under so many sets of numbers in turn.
void take_with_numbers(MemoryStore& store, std::size_t keys, std::size_t sets) {
  const auto space = store.open_space(varying("token_bucket 1/1d"));
  for (std::size_t i = 0; i < keys; ++i) {
    const std::string key = key_name(i);
    const auto burst = static_cast<std::int64_t>(i % sets + 1);
    const Limit numbers("token_bucket 1/1m burst=" + std::to_string(burst));
    const Request request{
        .limit = &numbers.definition(), .space = space.get(), .key = key, .cost = burst};
    ASSERT_TRUE(store.decide_one(request, kStart).allowed) << i;
  }
  EXPECT_EQ(store.counters().evicted, 0U);
}

// The second store takes what the first has given back.
TEST(Resident, NumbersOfEachKeyTakeLittleRoom) {
  constexpr std::size_t kKeys = 40'000;
  const auto bytes_with = [](std::size_t sets) {
    const std::size_t before = resident_bytes();
    MemoryStore store({.max_bytes = 64 * kMiB, .table = {}});
    take_with_numbers(store, kKeys, sets);
    return resident_bytes() - before;
  };
  bytes_with(1);
  const std::size_t of_one_set = bytes_with(1);
  EXPECT_LE(bytes_with(kKeys), of_one_set + 16 * kKeys);
}

// By the store's own account, which the tests above compare with the process's memory.
TEST(Resident, KeysThatShareNumbersTakeNoMoreThanOthers) {
  constexpr std::size_t kKeys = 100'000;
  const auto bytes_with = [](std::size_t sets) {
    MemoryStore store({.max_bytes = 64 * kMiB, .table = {}});
    take_with_numbers(store, kKeys, sets);
    return store.used_bytes();
  };
  const std::size_t of_one_set = bytes_with(1);
  EXPECT_LE(bytes_with(2), of_one_set + kKeys);
  EXPECT_LE(bytes_with(100), of_one_set + kKeys);
}

}  // namespace
}  // namespace sluice::memory

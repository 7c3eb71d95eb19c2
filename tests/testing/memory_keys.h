#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "stores/memory/memory_store.h"
#include "testing/limited_keys.h"

namespace sluice::memory {

// For the tests of stores/memory.

/// A whole hour, so that every window on the clock starts here.
inline constexpr Instant kStart = 472'222 * kHourNs;

/// Options of the smallest store, with the same hashing in every run.
inline MemoryOptions small_store() {
  return {.max_bytes = MemoryStore::kLeastBytes, .table = {.secret = HashSecret::fixed()}};
}

inline std::string key_name(std::uint64_t number) {
  return "key" + std::to_string(number);
}

/// A limit whose keys may have numbers of their own, as one with overrides.
inline LimitDefinition varying(std::string_view expression, std::string_view name = "varying") {
  LimitDefinition limit = Limit(expression, name).definition();
  limit.varies = true;
  return limit;
}

/// Takes once from each of 500 keys. Returns how many takes were admitted.
inline int take_from_each(LimitedKeys& keys, const std::string& prefix, std::int64_t cost = 1) {
  int admitted = 0;
  for (int i = 0; i < 500; ++i) {
    admitted += keys.take(prefix + std::to_string(i), kStart, cost).allowed ? 1 : 0;
  }
  return admitted;
}

/// Numbers of two plans.
inline constexpr const char* kOne = "token_bucket 1/1h";
inline constexpr const char* kMany = "token_bucket 1000/1h burst=3000";

/// Uses more keys than a small store has room for, so that others are forgotten.
inline void crowd_out(MemoryStore& store, LimitedKeys& keys, std::int64_t cost = 1) {
  for (std::uint64_t i = 0; i < 80'000; ++i) keys.take(key_name(i), kStart, cost);
  EXPECT_GT(store.counters().evicted, 15'000U);
}

/// Takes until a new key finds no room. Returns the name of that key.
inline std::string take_until_full(MemoryStore& store, LimitedKeys& keys) {
  const std::uint64_t refused = store.counters().without_room + 1;
  for (std::uint64_t i = 0;; ++i) {
    keys.take(key_name(i), kStart);
    if (store.counters().without_room == refused) return key_name(i);
  }
}

inline Place place_of(MemoryStore& store, const LimitedKeys& keys, std::string_view key) {
  return store.table().locate(keys.request(key));
}

}  // namespace sluice::memory

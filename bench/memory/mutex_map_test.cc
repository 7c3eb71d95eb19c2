#include "memory/mutex_map.h"

#include <gtest/gtest.h>

#include "memory/filled_store.h"

namespace sluice::bench {
namespace {

TEST(MutexMap, CountsDownPerKeyAndRefills) {
  MutexMap map;
  const Instant now = 1'700'000'000'000'000'000;
  EXPECT_EQ(map.decide("a", now), kBurst - 1);
  EXPECT_EQ(map.decide("a", now), kBurst - 2);
  EXPECT_EQ(map.decide("b", now), kBurst - 1);
  EXPECT_EQ(map.decide("a", now + 10 * kIntervalNs), kBurst - 1);
}

TEST(FilledStore, AnswersAsTheMutexMap) {
  const KeyArray keys(100);
  FilledStore store(keys);
  const Instant now = store.now();
  EXPECT_EQ(store.decide(keys.at(7), now), static_cast<std::uint64_t>(kBurst - 2));
  Walk walk(keys);
  EXPECT_EQ(store.decide_batch(&walk, 0, now), static_cast<std::uint64_t>(kBurst - 2));
  EXPECT_GT(store.decide_hot(now), 0u);
}

}  // namespace
}  // namespace sluice::bench

#include "service/top_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <unordered_map>

namespace sluice {
namespace {

using testing::UnorderedElementsAre;

std::vector<KeyCount> rows_of(std::initializer_list<const TopKeys*> summaries) {
  TopKeys::Merged merged;
  std::uint64_t dropped = 0;
  for (const TopKeys* keys : summaries) keys->merge_into(merged, dropped);
  std::vector<KeyCount> rows;
  for (const auto& [key, row] : merged) rows.push_back(row);
  return rows;
}

TEST(TopKeysTest, KeepsTheFirstBytesOfAKey) {
  TopKeys keys;
  keys.add(std::string(1'000, 'x'));
  EXPECT_THAT(rows_of({&keys}), UnorderedElementsAre(KeyCount{std::string(256, 'x'), 1, 0}));
}

// The guarantee, of a skewed stream of far more keys than counters, in two threads.
TEST(TopKeysTest, BoundsTheErrorOfManyKeys) {
  TopKeys summaries[2];
  std::unordered_map<std::string, std::uint64_t> truth;
  constexpr std::uint64_t kAdded = 40'000;
  std::uint64_t random = 1;
  for (std::uint64_t i = 0; i < kAdded; ++i) {
    random = random * 6'364'136'223'846'793'005U + 1'442'695'040'888'963'407U;
    const std::uint64_t range = (random >> 60) < 8 ? 20 : 50'000;
    const std::string key = std::to_string((random >> 20) % range);
    summaries[i % 2].add(key);
    ++truth[key];
  }
  const auto rows = rows_of({&summaries[0], &summaries[1]});
  std::unordered_map<std::string, std::uint64_t> told;
  for (const KeyCount& row : rows) {
    EXPECT_GE(row.count, truth[row.key]) << row.key;
    EXPECT_LE(row.count - row.error, truth[row.key]) << row.key;
    EXPECT_LE(row.error, kAdded / TopKeys::kMostCounters) << row.key;
    told[row.key] = row.count;
  }
  for (const auto& [key, count] : truth) {
    if (count > kAdded / TopKeys::kMostCounters) EXPECT_TRUE(told.contains(key)) << key;
  }
}

// The keys that are left are those seen most, and one that returns has what it may have lost as its
// error.
TEST(TopKeysTest, GoesOnWithFewerCounters) {
  TopKeys keys(3);
  for (const char* key : {"a", "a", "a", "b", "b", "c"}) keys.add(key);
  keys.set_counters(2);
  EXPECT_THAT(rows_of({&keys}), UnorderedElementsAre(KeyCount{"a", 3, 0}, KeyCount{"b", 2, 0}));
  keys.add("c");
  EXPECT_THAT(rows_of({&keys}), UnorderedElementsAre(KeyCount{"a", 3, 0}, KeyCount{"c", 3, 2}));
}

// A key that returns after the number was raised again may have been seen before, too, as may one
// that another summary counts.
TEST(TopKeysTest, GoesOnWithMoreCounters) {
  TopKeys keys(3);
  for (const char* key : {"a", "a", "a", "b", "b", "c"}) keys.add(key);
  keys.set_counters(1);
  keys.set_counters(3);
  keys.add("b");
  TopKeys others(1);
  others.add("c");
  EXPECT_THAT(rows_of({&keys}), UnorderedElementsAre(KeyCount{"a", 3, 0}, KeyCount{"b", 3, 2}));
  for (const auto& summaries : {std::vector{&keys, &others}, std::vector{&others, &keys}}) {
    EXPECT_THAT(
        rows_of({summaries[0], summaries[1]}),
        UnorderedElementsAre(KeyCount{"a", 3, 0}, KeyCount{"b", 3, 2}, KeyCount{"c", 3, 2}));
  }
}

TEST(DeniedKeysTest, HaveABoundForAllLimitsTogether) {
  std::set<std::size_t> limits;
  for (std::size_t limit = 0; limit < 256; ++limit) limits.insert(limit);
  const auto rows_in = [&](const DeniedKeys& denied) {
    std::size_t rows = 0;
    for (const std::size_t limit : limits) {
      TopKeys::Merged merged;
      std::uint64_t dropped = 0;
      denied.merge_into(limit, merged, dropped);
      rows += merged.size();
    }
    return rows;
  };
  DeniedKeys denied;
  const auto add_to_each = [&](int keys) {
    for (const std::size_t limit : limits) {
      for (int key = 0; key < keys; ++key) denied.add(limit, std::to_string(key));
    }
  };
  denied.keep(limits);
  add_to_each(100);
  EXPECT_EQ(rows_in(denied), DeniedKeys::kMostCounters);
  // Those of limits that are served no more are forgotten.
  denied.keep({0, 1});
  EXPECT_EQ(rows_in(denied), 2 * DeniedKeys::kMostCounters / limits.size());
  // The others have the room of those.
  limits = {0, 1};
  add_to_each(1'100);
  EXPECT_EQ(rows_in(denied), 2 * TopKeys::kMostCounters);
}

}  // namespace
}  // namespace sluice

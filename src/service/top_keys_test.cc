#include "service/top_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <unordered_map>

namespace sluice {
namespace {

using testing::UnorderedElementsAre;

std::vector<KeyCount> rows_of(std::initializer_list<const TopKeys*> summaries) {
  TopKeys::Merged merged;
  std::uint64_t least = 0;
  for (const TopKeys* keys : summaries) keys->merge_into(merged, least);
  std::vector<KeyCount> rows;
  for (const auto& [key, row] : merged) rows.push_back(row);
  return rows;
}

TEST(TopKeysTest, CountsFewKeysExactly) {
  TopKeys first;
  TopKeys second;
  for (int i = 0; i < 5; ++i) first.add("ann");
  for (int i = 0; i < 3; ++i) second.add("ann");
  second.add("bob");
  EXPECT_THAT(rows_of({&first, &second}),
              UnorderedElementsAre(KeyCount{"ann", 8, 0}, KeyCount{"bob", 1, 0}));
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
  constexpr std::uint64_t kAdded = 200'000;
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
    EXPECT_LE(row.error, kAdded / TopKeys::kCounters) << row.key;
    told[row.key] = row.count;
  }
  for (const auto& [key, count] : truth) {
    if (count > kAdded / TopKeys::kCounters) EXPECT_TRUE(told.contains(key)) << key;
  }
}

}  // namespace
}  // namespace sluice

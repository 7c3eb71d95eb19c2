#include "memory/key_array.h"

#include <gtest/gtest.h>

#include <set>

namespace sluice::bench {
namespace {

TEST(KeyArray, KeysAreDistinctAndOfEveryLength) {
  const KeyArray keys(10'000);
  ASSERT_EQ(keys.size(), 10'000u);
  std::set<std::string_view> seen;
  std::set<std::size_t> lengths;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    seen.insert(keys.at(i));
    lengths.insert(keys.at(i).size());
  }
  EXPECT_EQ(seen.size(), keys.size());
  EXPECT_EQ(lengths, (std::set<std::size_t>{16, 17, 18, 19, 20, 21, 22, 23, 24}));
}

TEST(Walk, VisitsEachKeyInTurn) {
  const KeyArray keys(3);
  Walk walk(keys);
  for (std::size_t i = 0; i < 7; ++i) EXPECT_EQ(walk.next(i), keys.at(i % 3));
}

}  // namespace
}  // namespace sluice::bench

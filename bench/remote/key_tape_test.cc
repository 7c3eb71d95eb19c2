#include "remote/key_tape.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

namespace sluice::bench {
namespace {

TEST(KeyTape, HasEveryKeyOnceInEachOrder) {
  const KeyArray keys(1'000);
  const KeyTape tape(keys);
  KeyCursor cursor(tape);
  ASSERT_EQ(tape.keys(), keys.size());
  std::set<std::string> expected;
  for (std::size_t i = 0; i < keys.size(); ++i) expected.emplace(keys.at(i));
  for (int order = 0; order < 9; ++order) {
    std::set<std::string> seen;
    for (std::size_t i = 0; i < keys.size(); ++i) seen.emplace(cursor.next());
    EXPECT_EQ(seen, expected) << "order " << order;
  }
}

TEST(KeyTape, TheOrdersDiffer) {
  const KeyTape tape(KeyArray(1'000));
  std::size_t same = 0;
  for (std::size_t i = 0; i < tape.keys(); ++i) same += tape.at(i) == tape.at(i + tape.keys());
  EXPECT_LT(same, 20U);
}

}  // namespace
}  // namespace sluice::bench

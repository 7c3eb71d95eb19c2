#include "stores/memcached/last_writes.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <string>

namespace sluice::memcached {
namespace {

constexpr Instant kWritesNow = 1'700'000'000'000'000'000;
constexpr Instant kLater = kWritesNow + 1'000'000'000;

LastWrites::Write write(std::string_view value, std::uint64_t token) {
  return {.value = value, .token = token, .until = kLater};
}

TEST(LastWrites, TellsWhatWasWrittenLast) {
  LastWrites writes;
  EXPECT_FALSE(writes.find({"k", 1}, kWritesNow));
  writes.remember({"k", 1}, write("a", 7));
  writes.remember({"other", 1}, write("c", 8));
  writes.remember({"k", 1}, write("a longer value than before", 9));
  const auto last = writes.find({"k", 1}, kWritesNow);
  ASSERT_TRUE(last);
  EXPECT_EQ(last->value, "a longer value than before");
  EXPECT_EQ(last->token, 9U);
  writes.forget({"k", 1});
  EXPECT_FALSE(writes.find({"k", 1}, kWritesNow));
  EXPECT_TRUE(writes.find({"other", 1}, kWritesNow));
}

TEST(LastWrites, AConnectionKnowsOnlyItsOwn) {
  LastWrites writes;
  writes.remember({"k", 1}, write("a", 7));
  EXPECT_FALSE(writes.find({"k", 2}, kWritesNow));
  writes.forget({"k", 2});
  EXPECT_TRUE(writes.find({"k", 1}, kWritesNow));
}

TEST(LastWrites, TellsNothingThatHasLapsed) {
  LastWrites writes;
  writes.remember({"k", 1}, write("a", 7));
  EXPECT_TRUE(writes.find({"k", 1}, kLater - 1));
  EXPECT_FALSE(writes.find({"k", 1}, kLater));
}

TEST(LastWrites, TellsNothingOfAKeyThatOthersWrite) {
  LastWrites writes;
  writes.found({"k", 1}, 3);
  writes.remember({"k", 1}, write("a", 7));
  writes.found({"k", 1}, 7);
  EXPECT_TRUE(writes.find({"k", 1}, kWritesNow));
  writes.found({"k", 1}, 8);
  EXPECT_FALSE(writes.find({"k", 1}, kWritesNow));
  writes.remember({"k", 1}, write("b", 9));
  EXPECT_FALSE(writes.find({"k", 1}, kWritesNow));
  // Nobody else has written since.
  writes.found({"k", 1}, 9);
  ASSERT_TRUE(writes.find({"k", 1}, kWritesNow));
  EXPECT_EQ(writes.find({"k", 1}, kWritesNow)->value, "b");
}

TEST(LastWrites, KeysAreBounded) {
  LastWrites writes;
  constexpr std::size_t kKeys = LastWrites::kMaxKeys + LastWrites::kMaxKeys / 2;
  for (std::size_t i = 0; i < kKeys; ++i) {
    writes.remember({std::to_string(i), 1}, write(std::to_string(i), i + 1));
  }
  std::size_t known = 0;
  for (std::size_t i = 0; i < kKeys; ++i) {
    const auto last = writes.find({std::to_string(i), 1}, kWritesNow);
    if (!last) continue;
    ++known;
    ASSERT_EQ(last->token, i + 1);
    ASSERT_EQ(last->value, std::to_string(i));
  }
  EXPECT_LE(known, LastWrites::kMaxKeys);
  EXPECT_GT(known, LastWrites::kMaxKeys * 9 / 10);
}

TEST(LastWrites, FewAreForgottenWhileThereIsRoom) {
  LastWrites writes;
  constexpr std::size_t kKeys = 100'000;
  for (std::size_t i = 0; i < kKeys; ++i) writes.remember({std::to_string(i), 1}, write("a", 1));
  std::size_t known = 0;
  for (std::size_t i = 0; i < kKeys; ++i) {
    known += writes.find({std::to_string(i), 1}, kWritesNow) ? 1 : 0;
  }
  EXPECT_GT(known, kKeys * 9 / 10);
}

TEST(LastWrites, BytesAreBounded) {
  LastWrites writes;
  const std::string value(std::size_t{1} << 20, 'x');
  constexpr std::size_t kMost = LastWrites::kMaxBytes >> 20;
  const auto known = [&] {
    std::size_t result = 0;
    for (int i = 0; i < 100; ++i) {
      result += writes.find({std::to_string(i), 1}, kWritesNow) ? 1 : 0;
    }
    return result;
  };
  for (int i = 0; i < 100; ++i) writes.remember({std::to_string(i), 1}, write(value, 1));
  EXPECT_LE(known(), kMost);
  EXPECT_GE(known(), kMost / 2);
  // What has become small keeps no room: there is some for others.
  for (int i = 0; i < 100; ++i) writes.remember({std::to_string(i), 1}, write("small", 1));
  EXPECT_EQ(known(), 100U);
}

// What is forgotten keeps no room either. (Under a sanitizer nothing is counted here.)
TEST(LastWrites, MemoryIsBounded) {
  const auto taken = [] {
    const auto memory = ::mallinfo2();
    return memory.uordblks + memory.hblkhd;
  };
  const std::string value(std::size_t{1} << 20, 'x');
  const std::size_t before = taken();
  LastWrites writes;
  for (int i = 0; i < 100; ++i) writes.remember({std::to_string(i), 1}, write(value, 1));
  EXPECT_LE(taken() - before, LastWrites::kMaxBytes + LastWrites::kMaxBytes / 4);
  for (int i = 0; i < 100; ++i) writes.forget({std::to_string(i), 1});
  EXPECT_LE(taken() - before, std::size_t{1} << 20);
}

}  // namespace
}  // namespace sluice::memcached

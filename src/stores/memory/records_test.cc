#include "stores/memory/records.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "testing/lone_records.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#define SLUICE_HAS_ADDRESS_SANITIZER
#endif
#endif

namespace sluice::memory {
namespace {

// A record with many cells, of which some have a record that is filled with a byte of its own.
struct ManyRecords : LoneRecords {
  static constexpr std::uint8_t kCells = 64;

  ManyRecords() : LoneRecords(std::size_t{1} << 28) {
    Record* record =
        records().allocate(RecordKind::kParts, sizeof(PartsRecord) + kCells * sizeof(Cell));
    record->parts = kCells;
    cell = cell_of(record);
    std::ranges::fill(cells(), 0);
  }
  std::span<Cell> cells() const {
    return {static_cast<PartsRecord*>(record_of(cell))->cells(), kCells};
  }

  void put(std::size_t index, std::size_t bytes) {
    clear(index);
    if (bytes == 0) return;
    ASSERT_TRUE(reserve([&](Records& records) {
      Record* record = records.allocate(RecordKind::kState, bytes);
      if (record == nullptr) return false;
      std::memset(record + 1, static_cast<int>(index), bytes - sizeof *record);
      cells()[index] = cell_of(record);
      return true;
    }));
    sizes[index] = bytes;
  }
  void clear(std::size_t index) {
    records().release(std::exchange(cells()[index], 0));
    sizes[index] = 0;
  }

  bool is_whole() const {
    for (std::size_t i = 0; i < kCells; ++i) {
      if (is_record(cells()[i]) != (sizes[i] > 0)) return false;
      if (sizes[i] == 0) continue;
      Record* record = record_of(cells()[i]);
      const std::vector<char> filled(sizes[i] - sizeof *record, static_cast<char>(i));
      if (record->bytes != sizes[i]) return false;
      if (std::memcmp(record + 1, filled.data(), filled.size()) != 0) return false;
    }
    return record_bytes(cell) <= used_bytes();
  }

  std::array<std::size_t, kCells> sizes{};
};

// None, small ones, those of a few pages, and some that have pages of their own.
rc::Gen<std::size_t> sizes() {
  return rc::gen::map(
      rc::gen::weightedOneOf<std::size_t>({{4, rc::gen::just<std::size_t>(0)},
                                           {8, rc::gen::inRange<std::size_t>(2, 20)},
                                           {4, rc::gen::inRange<std::size_t>(20, 1'000)},
                                           {1, rc::gen::inRange<std::size_t>(1'900, 3'000)}}),
      [](std::size_t words) { return words * 8; });
}

RC_GTEST_PROP(RecordsProperty, KeepWhatIsInThemWhenTheyMove, ()) {
  using Put = std::pair<std::size_t, std::size_t>;
  const auto puts =
      *rc::gen::resize(600, rc::gen::container<std::vector<Put>>(rc::gen::pair(
                                rc::gen::inRange<std::size_t>(0, ManyRecords::kCells), sizes())));
  ManyRecords many;
  for (const auto& [index, bytes] : puts) {
    many.put(index, bytes);
    if (many.is_due()) RC_ASSERT(many.move());
    RC_ASSERT(many.is_whole());
  }
}

TEST(Records, TheirBlockIsLittleLargerThanTheyAre) {
  ManyRecords many;
  for (std::size_t round = 0; round < 20; ++round) {
    for (std::size_t i = 0; i < ManyRecords::kCells; ++i) many.put(i, 4'000 + round * 504);
    if (many.is_due()) ASSERT_TRUE(many.move());
    EXPECT_LE(many.block().bytes, many.block().live * 9 / 8 + Budget::kPageBytes) << round;
  }
}

TEST(Records, TheirBlockShrinksWhenTheyHaveBeenFreed) {
  ManyRecords many;
  for (std::size_t i = 0; i < ManyRecords::kCells; ++i) many.put(i, 8'000);
  EXPECT_FALSE(many.is_due());
  for (std::size_t i = 0; i < ManyRecords::kCells; ++i) {
    if (i % 8 != 0) many.clear(i);
  }
  EXPECT_TRUE(many.is_due());
  EXPECT_TRUE(many.move());
  EXPECT_TRUE(many.is_whole());
  EXPECT_LE(many.block().bytes, many.block().live + 2 * Budget::kPageBytes);
}

#ifdef SLUICE_HAS_ADDRESS_SANITIZER
// Also where pages have been added to their block, of which the system may have moved all.
TEST(Records, WhatIsFreeInTheirBlockIsPoisoned) {
  constexpr std::size_t kBytes = 960;
  ManyRecords many;
  const auto is_poisoned = [&](std::size_t offset) {
    return __asan_address_is_poisoned(reinterpret_cast<const char*>(&many.block()) + offset) != 0;
  };
  for (std::size_t i = 0; i < 60; ++i) many.put(i, kBytes);
  const auto freed =
      static_cast<std::size_t>(reinterpret_cast<const char*>(record_of(many.cells()[7])) -
                               reinterpret_cast<const char*>(&many.block()));
  many.clear(7);
  const std::size_t bytes = many.block().bytes;
  for (std::size_t i = 60; i < ManyRecords::kCells; ++i) many.put(i, 4'000);
  ASSERT_GT(many.block().bytes, bytes);
  EXPECT_TRUE(is_poisoned(freed + kBytes / 2));
  EXPECT_TRUE(is_poisoned(freed + kBytes - 1));
  EXPECT_FALSE(is_poisoned(freed + kBytes));
  EXPECT_FALSE(is_poisoned(many.block().end - 1));
  EXPECT_TRUE(is_poisoned(many.block().end));
  EXPECT_TRUE(is_poisoned(many.block().bytes - 1));
}
#endif

TEST(Records, TakeThePlacesOfFreedOnesOfTheirSize) {
  ManyRecords many;
  for (std::size_t i = 0; i < ManyRecords::kCells; ++i) many.put(i, 96);
  const std::size_t end = many.block().end;
  for (std::size_t n = 0; n < 10'000; ++n) many.put(n * 7 % ManyRecords::kCells, 96);
  EXPECT_EQ(many.block().end, end);
}

}  // namespace
}  // namespace sluice::memory

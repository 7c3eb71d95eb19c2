#include "stores/memory/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "testing/on_threads.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kBlock = 1024;

struct Blocks {
  explicit Blocks(Budget& held_by) : budget(held_by) {}
  ~Blocks() { release(); }

  // Allocates blocks until an allocation fails.
  void fill() {
    while (void* block = budget.allocate_lines(kBlock)) all.push_back(block);
  }
  void release() {
    for (void* block : all) budget.release_lines(block, kBlock);
    all.clear();
  }

  Budget& budget;
  std::vector<void*> all;
};

TEST(Budget, CountsAllocatedBytes) {
  Budget budget(std::size_t{1} << 20);
  void* line = budget.allocate_lines(128);
  EXPECT_EQ(budget.used_bytes(), 128 + Budget::kOverheadBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(line) % 64, 0U);
  EXPECT_TRUE(budget.charge(100));
  EXPECT_EQ(budget.used_bytes(), 128 + Budget::kOverheadBytes + 100);
  EXPECT_FALSE(budget.charge(budget.max_bytes() - 200));
  budget.uncharge(100);
  budget.release_lines(line, 128);
  EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(Budget, CountsWholePagesOfLargeBlocksOfLines) {
  Budget budget(std::size_t{1} << 20);
  for (const std::size_t bytes : {640, 16'320, 16'384, 16'448, 100'032}) {
    void* block = budget.allocate_lines(bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % 64, 0U);
    std::memset(block, 1, bytes);
    EXPECT_GE(budget.used_bytes(), bytes);
    EXPECT_LE(budget.used_bytes(), bytes + Budget::kPageBytes + Budget::kOverheadBytes);
    budget.release_lines(block, bytes);
    EXPECT_EQ(budget.used_bytes(), 0U);
  }
}

TEST(Budget, IsEmptyAfterThreadsFreeEverything) {
  Budget budget(std::size_t{1} << 19);
  on_threads(4, [&](std::size_t) {
    Blocks blocks(budget);
    for (int round = 0; round < 5; ++round) {
      blocks.fill();
      blocks.release();
    }
  });
  EXPECT_EQ(budget.used_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::memory

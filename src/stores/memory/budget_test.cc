#include "stores/memory/budget.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>
#include <vector>

namespace sluice::memory {
namespace {

constexpr std::size_t kBlock = 1024;
constexpr std::size_t kCharged = kBlock + Account::kOverheadBytes;

struct Blocks {
  explicit Blocks(Account& held_by) : account(held_by) {}
  ~Blocks() { release(); }

  // Allocates blocks until an allocation fails.
  void fill() {
    while (void* block = account.allocate(kBlock)) all.push_back(block);
  }
  void release() {
    for (void* block : all) account.release(block, kBlock);
    all.clear();
  }

  Account& account;
  std::vector<void*> all;
};

TEST(Budget, CountsAllocatedBytes) {
  Budget budget(std::size_t{1} << 20);
  Account account(budget);
  void* small = account.allocate(100);
  void* line = account.allocate(128, 64);
  EXPECT_EQ(budget.used_bytes(), 100 + 128 + 2 * Account::kOverheadBytes);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(small) % 16, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(line) % 64, 0U);
  account.release(small, 100);
  account.release(line, 128);
  EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(Budget, AnAllocationBeyondItFails) {
  Budget budget(std::size_t{1} << 20);
  Account account(budget);
  Blocks blocks(account);
  blocks.fill();
  EXPECT_EQ(blocks.all.size(), budget.max_bytes() / kCharged);
  EXPECT_EQ(budget.used_bytes(), blocks.all.size() * kCharged);

  account.release(blocks.all.back(), kBlock);
  blocks.all.back() = account.allocate(kBlock);
  EXPECT_NE(blocks.all.back(), nullptr);
}

TEST(Budget, AFailedAllocationChargesNothing) {
  Budget budget(std::size_t{1} << 20);
  Account account(budget);
  EXPECT_EQ(account.allocate(std::size_t{2} << 20), nullptr);
  EXPECT_EQ(budget.used_bytes(), 0U);
}

TEST(Budget, ALateTableHasItsFloor) {
  Budget budget(std::size_t{1} << 20);
  Account first(budget);
  Account late(budget);
  Blocks firsts(first);
  Blocks lates(late);
  firsts.fill();
  lates.fill();
  EXPECT_EQ(lates.all.size(), Account::kFloorBytes / kCharged);
  EXPECT_LE(budget.used_bytes(), budget.max_bytes() + Account::kFloorBytes);
  EXPECT_EQ(first.allocate(kBlock), nullptr);
}

TEST(Budget, NeededBlocksHaveTheirOwnFloor) {
  Budget budget(0);
  Account account(budget);
  Blocks blocks(account);
  blocks.fill();
  void* needed = account.allocate(kBlock, 64, true);
  EXPECT_NE(needed, nullptr);
  account.release(needed, kBlock);
}

TEST(Budget, IsEmptyAfterThreadsFreeEverything) {
  Budget budget(std::size_t{1} << 19);
  Account one(budget);
  Account other(budget);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&, thread] {
      Blocks blocks(thread % 2 == 0 ? one : other);
      for (int round = 0; round < 5; ++round) {
        blocks.fill();
        blocks.release();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(budget.used_bytes(), 0U);
}

}  // namespace
}  // namespace sluice::memory

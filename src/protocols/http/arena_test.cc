#include "protocols/http/arena.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::http {
namespace {

// Each batch needs a further block, which must not be larger than that of the batch before.
TEST(ArenaTest, LargeBatchesDoNotNeedMoreAndMore) {
  const std::string text(20'000, 'x');
  Arena arena;
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(arena.copy(text), text);
    arena.release();
  }
}

}  // namespace
}  // namespace sluice::http

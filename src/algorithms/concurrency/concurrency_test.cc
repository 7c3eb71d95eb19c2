#include "algorithms/concurrency/concurrency.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace sluice {
namespace {

// A peek leaves the expired permits in the list. If each peek looked at every one of them, these
// would take a hundred times as long as they may.
TEST(ConcurrencyTest, PeeksDoNotReadAllExpiredPermits) {
  constexpr Concurrency::Params kParams{.limit = Concurrency::kMaxLimit};
  const std::vector<PermitEntry> permits(Concurrency::kMaxLimit, {.expires_ns = 1, .id = 7});
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 200'000; ++i) {
    const auto peeked = Concurrency::take(kParams, permits, {.now = 2, .cost = 0});
    ASSERT_EQ(peeked.next.expired, permits.size());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

}  // namespace
}  // namespace sluice

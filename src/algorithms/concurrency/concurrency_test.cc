#include "algorithms/concurrency/concurrency.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "testing/algorithm_key.h"

namespace sluice {
namespace {

class Key : public AlgorithmKey<Concurrency> {
 public:
  using AlgorithmKey::AlgorithmKey;

  Decision acquire(Instant now, PermitId permit) { return take({.now = now, .permit = permit}); }
};

TEST(ConcurrencyTest, AShorterLeaseExpiresBeforeEarlierLongerOnes) {
  Key key("concurrency 3 lease=1h");
  key.acquire(0, 1);
  key.redefine("concurrency 2 lease=1s");
  key.acquire(0, 2);
  EXPECT_EQ(key.state()[0].id, 2U);
  EXPECT_EQ(key.acquire(0, 3).retry_after.count(), kSecondNs);
  EXPECT_TRUE(key.acquire(kSecondNs, 3).allowed);
}

TEST(ConcurrencyTest, TheLongestLeaseAtTheEndOfTimeDoesNotOverflow) {
  Key key("concurrency 1 lease=2305843009213693952ns");
  EXPECT_EQ(key.acquire(kEndOfTime - 1, 1).reset_after.count(), kMaxDurationNs);
  EXPECT_EQ(key.acquire(0, 2).retry_after.count(), kEndOfTime - 1 + kMaxDurationNs);
}

// A peek leaves the expired permits in the list. If each peek looked at every one of them, these
// would take a hundred times as long as they may.
TEST(ConcurrencyTest, PeeksDoNotReadAllExpiredPermits) {
  const Key key("concurrency 65536 lease=1s");
  const std::vector<PermitEntry> permits(Concurrency::kMaxLimit, {.expires_ns = 1, .id = 7});
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 200'000; ++i) {
    const auto peeked = Concurrency::take(key.params(), permits, {.now = 2, .cost = 0});
    ASSERT_EQ(peeked.next.expired, permits.size());
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, std::chrono::seconds(5));
}

TEST(ConcurrencyTest, OperationsThatItDoesNotSupportArePeeks) {
  Key key("concurrency 2");
  for (const Operation operation : {Operation::kRefund, Operation::kCharge, Operation::kBlock}) {
    EXPECT_EQ(key.ask(operation, {.now = 0, .permit = 1}), admit({.limit = 2, .remaining = 2}));
  }
}

}  // namespace
}  // namespace sluice

#include "algorithms/concurrency/concurrency.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

#include "algorithms/limit_definition.h"
#include "testing/algorithm_key.h"

namespace sluice {
namespace {

class Key : public AlgorithmKey<Concurrency> {
 public:
  using AlgorithmKey::AlgorithmKey;

  Decision acquire(Instant now, PermitId permit) { return take({.now = now, .permit = permit}); }
  Decision renew(Instant now, PermitId permit) {
    return ask(Operation::kRenew, {.now = now, .permit = permit});
  }
  Decision release(Instant now, PermitId permit) {
    return ask(Operation::kRelease, {.now = now, .permit = permit});
  }
  Decision peek(Instant now) { return take({.now = now, .cost = 0}); }
};

TEST(ConcurrencyTest, GrantsAtMostTheLimitAtTheSameTime) {
  Key key("concurrency 2 lease=10s");
  EXPECT_EQ(key.peek(0), admit({.limit = 2, .remaining = 2}));
  EXPECT_EQ(key.acquire(0, 1), admit({.limit = 2, .remaining = 1, .reset_ns = 10 * kSecondNs}));
  EXPECT_EQ(key.acquire(kSecondNs, 2), admit({.limit = 2, .reset_ns = 10 * kSecondNs}));
  EXPECT_EQ(key.acquire(2 * kSecondNs, 3),
            deny({.limit = 2, .retry_ns = 8 * kSecondNs, .reset_ns = 9 * kSecondNs}));
  EXPECT_EQ(key.release(2 * kSecondNs, 1),
            admit({.limit = 2, .remaining = 1, .reset_ns = 9 * kSecondNs}));
  EXPECT_TRUE(key.acquire(2 * kSecondNs, 3).allowed);
}

TEST(ConcurrencyTest, APermitCountsUntilItsLeaseEnds) {
  Key key("concurrency 1 lease=10s");
  key.acquire(5, 1);
  EXPECT_EQ(key.acquire(10 * kSecondNs + 4, 2).retry_after.count(), 1);
  EXPECT_EQ(key.peek(10 * kSecondNs + 5), admit({.limit = 1, .remaining = 1}));
  EXPECT_TRUE(key.acquire(10 * kSecondNs + 5, 2).allowed);
  EXPECT_EQ(key.state().size(), 1U);
}

TEST(ConcurrencyTest, ARenewedPermitCountsForAWholeLeaseFromTheRenewal) {
  Key key("concurrency 2 lease=10s");
  key.acquire(0, 1);
  key.acquire(kSecondNs, 2);
  EXPECT_EQ(key.renew(4 * kSecondNs, 1), admit({.limit = 2, .reset_ns = 10 * kSecondNs}));
  EXPECT_EQ(key.state()[0].id, 2U);
  EXPECT_EQ(key.acquire(4 * kSecondNs, 3).retry_after.count(), 7 * kSecondNs);
  EXPECT_TRUE(key.release(14 * kSecondNs - 1, 1).allowed);
}

// A permit cannot be renewed after its lease, even if its place is still free.
TEST(ConcurrencyTest, APermitThatIsNotHeldCannotBeRenewedOrReleased) {
  Key key("concurrency 2 lease=10s");
  key.acquire(0, 1);
  for (const PermitId unknown : {PermitId{2}, PermitId{0}, ~PermitId{0}}) {
    const Decision denied =
        deny({.limit = 2, .remaining = 1, .retry_ns = kNever.count(), .reset_ns = 10 * kSecondNs});
    EXPECT_EQ(key.renew(0, unknown), denied);
    EXPECT_EQ(key.release(0, unknown), denied);
  }
  EXPECT_EQ(key.renew(10 * kSecondNs, 1).retry_after, kNever);
  EXPECT_EQ(key.release(10 * kSecondNs, 1).retry_after, kNever);
  EXPECT_TRUE(key.release(10 * kSecondNs - 1, 1).allowed);
  EXPECT_EQ(key.release(10 * kSecondNs - 1, 1).retry_after, kNever);
}

TEST(ConcurrencyTest, AnAcquisitionIsOfOnePermit) {
  Key key("concurrency 5");
  EXPECT_EQ(key.take({.now = 0, .cost = 2, .permit = 1}),
            deny({.limit = 5, .remaining = 5, .retry_ns = kNever.count()}));
  EXPECT_TRUE(key.state().empty());
}

TEST(ConcurrencyTest, ALowerLimitWaitsUntilEnoughHaveExpired) {
  Key key("concurrency 4 lease=10s");
  for (PermitId id = 1; id <= 4; ++id) key.acquire(static_cast<Instant>(id) * kSecondNs, id);
  key.redefine("concurrency 2 lease=10s");
  EXPECT_EQ(key.acquire(5 * kSecondNs, 5),
            deny({.limit = 2, .retry_ns = 8 * kSecondNs, .reset_ns = 9 * kSecondNs}));
  EXPECT_EQ(key.peek(5 * kSecondNs).remaining, 0);
  EXPECT_TRUE(key.acquire(13 * kSecondNs, 5).allowed);
}

TEST(ConcurrencyTest, AShorterLeaseExpiresBeforeEarlierLongerOnes) {
  Key key("concurrency 3 lease=1h");
  key.acquire(0, 1);
  key.redefine("concurrency 2 lease=1s");
  key.acquire(0, 2);
  EXPECT_EQ(key.state()[0].id, 2U);
  EXPECT_EQ(key.acquire(0, 3).retry_after.count(), kSecondNs);
  EXPECT_TRUE(key.acquire(kSecondNs, 3).allowed);
}

// Permits that were acquired with a clock that was ahead expire at the instant that it gave.
TEST(ConcurrencyTest, AClockThatIsSetBackLosesNoPermit) {
  Key key("concurrency 2 lease=10s");
  key.acquire(100 * kSecondNs, 1);
  EXPECT_EQ(key.acquire(50 * kSecondNs, 2).remaining, 0);
  EXPECT_EQ(key.state()[0].id, 2U);
  EXPECT_EQ(key.acquire(50 * kSecondNs, 3),
            deny({.limit = 2, .retry_ns = 10 * kSecondNs, .reset_ns = 60 * kSecondNs}));
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

TEST(ConcurrencyTest, IsDefinedByACountAndALease) {
  EXPECT_EQ(Key("concurrency 100").params().lease_ns, 60 * kSecondNs);
  EXPECT_EQ(Concurrency::describe(Key("concurrency 100 lease=1m").params()), "concurrency 100");
  EXPECT_EQ(Concurrency::describe(Key("concurrency 100 lease=90s").params()),
            "concurrency 100 lease=1m30s");
  EXPECT_THROW(Key("concurrency 65537"), InvalidLimit);
  EXPECT_THROW(Key("concurrency 100/1s"), InvalidLimit);
  EXPECT_THROW(parse_parts("concurrency 1 & fixed_window 5/1s"), InvalidLimit);
  EXPECT_THROW(parse_parts("fixed_window 5/1s & concurrency 1"), InvalidLimit);
}

TEST(ConcurrencyTest, IsTheOnlyLendingAlgorithm) {
  EXPECT_TRUE(lends({.space = "", .expression = "", .parts = parse_parts("concurrency 1")}));
  EXPECT_FALSE(lends({.space = "", .expression = "", .parts = parse_parts("token_bucket 1/1s")}));
}

}  // namespace
}  // namespace sluice

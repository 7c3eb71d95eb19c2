#include "stores/memcached/expiry.h"

#include <gtest/gtest.h>

namespace sluice::memcached {
namespace {

constexpr std::int64_t kNowS = 1'700'000'000;
constexpr Instant kExpiryNow = kNowS * kSecondNs + 123'456'789;

TEST(Expiry, IsTheLifetimeInWholeSecondsAndOneMore) {
  EXPECT_EQ(expiry_s(0, kExpiryNow), 1);
  EXPECT_EQ(expiry_s(1, kExpiryNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs - 1, kExpiryNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs, kExpiryNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs + 1, kExpiryNow), 3);
}

TEST(Expiry, AboveThirtyDaysIsADate) {
  const std::int64_t last_ns = (kMostRelativeExpiry - 1) * kSecondNs;
  EXPECT_EQ(expiry_s(last_ns, kExpiryNow), kMostRelativeExpiry);
  EXPECT_EQ(expiry_s(last_ns + 1, kExpiryNow), kNowS + kMostRelativeExpiry + 1);
}

TEST(Expiry, IsNeverLaterThanAServerCanRead) {
  EXPECT_EQ(expiry_s(kMaxDurationNs, kExpiryNow), kLastExpiry);
  EXPECT_EQ(expiry_s(kMaxInt64, kExpiryNow), kLastExpiry);
  EXPECT_EQ(expiry_s(kMaxInt64, kEndOfTime - 1), kLastExpiry);
}

TEST(Expiry, KeepsAValueForItsLifetimeOrAsLongAsAServerCan) {
  EXPECT_EQ(kept_until(0, kExpiryNow), kExpiryNow);
  EXPECT_EQ(kept_until(1, kExpiryNow), kExpiryNow + kSecondNs);
  EXPECT_EQ(kept_until(kMaxInt64, kExpiryNow), kLastExpiry * kSecondNs);
  EXPECT_EQ(kept_until(kLastExpiry * kSecondNs - kExpiryNow - 1, kExpiryNow),
            kLastExpiry * kSecondNs);
  EXPECT_EQ(kept_until(kSecondNs, kEndOfTime - 1), kLastExpiry * kSecondNs);
}

}  // namespace
}  // namespace sluice::memcached

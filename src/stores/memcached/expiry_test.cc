#include "stores/memcached/expiry.h"

#include <gtest/gtest.h>

namespace sluice::memcached {
namespace {

constexpr std::int64_t kNowS = 1'700'000'000;
constexpr Instant kNow = kNowS * kSecondNs + 123'456'789;

TEST(Expiry, IsTheLifetimeInWholeSecondsAndOneMore) {
  EXPECT_EQ(expiry_s(0, kNow), 1);
  EXPECT_EQ(expiry_s(1, kNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs - 1, kNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs, kNow), 2);
  EXPECT_EQ(expiry_s(kSecondNs + 1, kNow), 3);
}

TEST(Expiry, AboveThirtyDaysIsADate) {
  const std::int64_t last_ns = (kMostRelativeExpiry - 1) * kSecondNs;
  EXPECT_EQ(expiry_s(last_ns, kNow), kMostRelativeExpiry);
  EXPECT_EQ(expiry_s(last_ns + 1, kNow), kNowS + kMostRelativeExpiry + 1);
}

TEST(Expiry, IsNeverLaterThanAServerCanRead) {
  EXPECT_EQ(expiry_s(kMaxDurationNs, kNow), kLastExpiry);
  EXPECT_EQ(expiry_s(kMaxInt64, kNow), kLastExpiry);
  EXPECT_EQ(expiry_s(kMaxInt64, kEndOfTime - 1), kLastExpiry);
}

TEST(Expiry, KeepsAValueForItsLifetimeOrAsLongAsAServerCan) {
  EXPECT_EQ(kept_until(0, kNow), kNow);
  EXPECT_EQ(kept_until(1, kNow), kNow + kSecondNs);
  EXPECT_EQ(kept_until(kMaxInt64, kNow), kLastExpiry * kSecondNs);
  EXPECT_EQ(kept_until(kLastExpiry * kSecondNs - kNow - 1, kNow), kLastExpiry * kSecondNs);
  EXPECT_EQ(kept_until(kSecondNs, kEndOfTime - 1), kLastExpiry * kSecondNs);
}

}  // namespace
}  // namespace sluice::memcached

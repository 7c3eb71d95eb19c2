// exact=no, against a server whose every reply the test makes: no sockets.

#include "stores/memcached/carrier_under_test.h"

namespace sluice::memcached {
namespace {

using testing::HasSubstr;

class CountingCarrierTest : public MemcachedCarrierTest {
 protected:
  explicit CountingCarrierTest(std::string_view expression = "fixed_window 5/1h")
      : MemcachedCarrierTest(expression) {
    options_.exact = false;
  }
};

// Whoever adds first may be ahead of all others, by whose clocks the counter counts for longer.
TEST_F(CountingCarrierTest, ACounterIsKeptForClocksThatAreBehind) {
  constexpr std::int64_t kHourS = 3'600;
  ask("k");
  const std::int64_t window_ends_in_s = kHourS - kNow / kSecondNs % kHourS;
  EXPECT_THAT(sent(), HasSubstr(" N" + std::to_string(window_ends_in_s + 2 * kHourS + 1) + " J1 "));
  answer("VA 1 O0\r\n1\r\nEN\r\nMN\r\n");
}

class ShortWindows : public CountingCarrierTest {
 protected:
  ShortWindows() : CountingCarrierTest("fixed_window 5/1ns") {}
};

// By the store's clock a window has passed long ago by then, and its counter has gone.
TEST_F(ShortWindows, WhatIsAnsweredAfterTwoOfThemIsNoAnswer) {
  now_ = kStoreTime;
  const Ask& asked = ask("k");
  sent();
  answer("VA 1 O0\r\n1\r\nEN\r\nMN\r\n");
  EXPECT_EQ(asked.decision.source, Source::kUnanswered);
  ASSERT_THAT(asked.inquiry.fault, HasSubstr("two sub-windows late"));
  EXPECT_THAT(sent(), HasSubstr(" MD D1 "));
  answer("HD O0\r\nMN\r\n");
}

// Where time is an argument nothing is late.
TEST_F(ShortWindows, AtAGivenInstantAnyReplyIsAnAnswer) {
  const Ask& asked = ask("k");
  sent();
  answer("VA 1 O0\r\n1\r\nEN\r\nMN\r\n");
  EXPECT_EQ(asked.decision.remaining, 4);
}

class SlidingCarrierTest : public CountingCarrierTest {
 protected:
  SlidingCarrierTest() : CountingCarrierTest("sliding_window 5/10s precision=5s") {}
};

TEST_F(SlidingCarrierTest, ACounterIsKeptForClocksThatAreBehind) {
  ask("k");
  // Its sub-window has just begun, counts with the two after it, and for two more.
  static_assert(kNow % (5 * kSecondNs) == 0);
  EXPECT_THAT(sent(), HasSubstr(" N" + std::to_string((1 + 2 + 2) * 5 + 1) + " J1 "));
  answer("VA 1 O0\r\n1\r\nEN\r\nEN\r\nEN\r\nEN\r\nEN\r\nMN\r\n");
}

}  // namespace
}  // namespace sluice::memcached

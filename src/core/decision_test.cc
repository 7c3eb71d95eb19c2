#include "sluice/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>

namespace sluice {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

TEST(Decision, NeverIsTheLongestWait) {
  EXPECT_EQ(std::max<std::chrono::nanoseconds>(kNever, hours(1'000'000)), kNever);
}

TEST(Decision, IsToldInWords) {
  EXPECT_EQ(
      to_string(Decision{.allowed = true, .limit = 5, .remaining = 4, .reset_after = minutes(10)}),
      "allowed: 4 of 5 left, reset after 10m");
  EXPECT_EQ(to_string(Decision{.source = Source::kLocal,
                               .limit = 5,
                               .retry_after = minutes(2),
                               .reset_after = minutes(10)}),
            "denied: 0 of 5 left, retry after 2m, reset after 10m (local)");
  EXPECT_EQ(to_string(Decision{.limit = 5, .remaining = 5, .retry_after = kNever}),
            "denied: 5 of 5 left, retry never, reset after 0s");
  EXPECT_EQ(to_string(Decision{.allowed = true,
                               .limit = 11,
                               .remaining = 7,
                               .reset_after = milliseconds(400),
                               .delay = milliseconds(300),
                               .taken = 3}),
            "allowed after 300ms: 7 of 11 left, 3 taken, reset after 400ms");
}

TEST(Decision, TellsWhichPartBinds) {
  const Decision decision{.binding = 2, .limit = 5, .retry_after = minutes(2)};
  EXPECT_EQ(to_string(decision), "denied: 0 of 5 left by part 2, retry after 2m, reset after 0s");
  EXPECT_NE(decision, (Decision{.limit = 5, .retry_after = minutes(2)}));
}

TEST(Decision, TellsHowTheCallEnded) {
  EXPECT_EQ(to_string(Decision{.ended = Ended::kStopped, .limit = 5}),
            "denied, stopped: 0 of 5 left, reset after 0s");
  EXPECT_EQ(to_string(Decision{.ended = Ended::kTimedOut, .limit = 5}),
            "denied, timed out: 0 of 5 left, reset after 0s");
  EXPECT_EQ(to_string(Ended::kAnswered), "answered");
}

TEST(Decision, CanBeWrittenToAStream) {
  std::ostringstream out;
  out << Decision{.allowed = true, .limit = 1};
  EXPECT_EQ(out.str(), "allowed: 0 of 1 left, reset after 0s");
}

TEST(Source, HasAName) {
  EXPECT_EQ(to_string(Source::kStore), "store");
  EXPECT_EQ(to_string(Source::kFull), "full");
  EXPECT_EQ(to_string(Source::kCache), "cache");
  EXPECT_EQ(to_string(Source::kLocal), "local");
  EXPECT_EQ(to_string(Source::kPolicy), "policy");
}

}  // namespace
}  // namespace sluice

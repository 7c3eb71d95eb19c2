#include "sluice/decision.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <sstream>
#include <string_view>
#include <utility>

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(Decision, NeverIsTheLongestWait) {
  EXPECT_EQ(std::max<std::chrono::nanoseconds>(kNever, 1'000'000h), kNever);
}

TEST(Decision, IsToldInWords) {
  const std::pair<Decision, std::string_view> rows[] = {
      {{.allowed = true, .limit = 5, .remaining = 4, .reset_after = 10min},
       "allowed: 4 of 5 left, reset after 10m"},
      {{.source = Source::kLocal, .limit = 5, .retry_after = 2min, .reset_after = 10min},
       "denied: 0 of 5 left, retry after 2m, reset after 10m (local)"},
      {{.limit = 5, .remaining = 5, .retry_after = kNever},
       "denied: 5 of 5 left, retry never, reset after 0s"},
      {{.allowed = true, .limit = 11, .remaining = 7, .delay = 300ms, .taken = 3},
       "allowed after 300ms: 7 of 11 left, 3 taken, reset after 0s"},
      {{.binding = 2, .limit = 5}, "denied: 0 of 5 left by part 2, reset after 0s"},
      {{.ended = Ended::kStopped, .limit = 5}, "denied, stopped: 0 of 5 left, reset after 0s"},
      {{.ended = Ended::kTimedOut, .limit = 5}, "denied, timed out: 0 of 5 left, reset after 0s"}};
  for (const auto& [decision, words] : rows) {
    std::ostringstream out;
    out << decision;
    EXPECT_EQ(out.str(), words);
    EXPECT_EQ(to_string(decision), words);
  }
  EXPECT_EQ(to_string(Ended::kAnswered), "answered");
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

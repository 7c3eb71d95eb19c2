#include "sluice/http_headers.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "testing/error_of.h"
#include "testing/made_headers.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using Answers = std::vector<std::pair<Limit, Decision>>;

// The headers as lines.
std::string lines(const Answers& answers, HeaderStyle style = HeaderStyle::kIetf11,
                  std::chrono::system_clock::time_point now = {}) {
  std::string text;
  for (const auto& [name, value] : made_headers(answers, style, now)) {
    text += std::string(name) + ": " + value + "\n";
  }
  return text;
}

Decision admitted(std::int64_t limit, std::int64_t remaining,
                  std::chrono::nanoseconds reset_after) {
  return {.allowed = true, .limit = limit, .remaining = remaining, .reset_after = reset_after};
}

Decision denied(std::int64_t limit, std::int64_t remaining, std::chrono::nanoseconds retry_after,
                std::chrono::nanoseconds reset_after) {
  return {.limit = limit,
          .remaining = remaining,
          .retry_after = retry_after,
          .reset_after = reset_after};
}

// The headers of every answer.
std::string told(const std::string& policy, const std::string& rate_limit) {
  return "RateLimit-Policy: " + policy + "\nRateLimit: " + rate_limit + "\n";
}

// The further headers of a denial.
std::string try_again_after(int seconds) {
  return "Retry-After: " + std::to_string(seconds) + "\nCache-Control: no-store\n";
}

TEST(HttpHeaders, AnAdmissionTellsWhatIsLeft) {
  const Limit minute("fixed_window 100/1m", "burst");
  EXPECT_EQ(lines({{minute, admitted(100, 50, 20s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=50;t=30"));
  EXPECT_EQ(lines({{minute, admitted(100, 1, 20s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=1;t=1"));
  // If no units are left, t is the time until there are some, rounded up, and never 0.
  EXPECT_EQ(lines({{minute, admitted(100, 0, 19'000'000'001ns)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=0;t=20"));
  EXPECT_EQ(lines({{minute, admitted(100, 0, 0s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=0;t=1"));
}

TEST(HttpHeaders, ADenialTellsWhenToTryAgain) {
  const Limit minute("fixed_window 100/1m", "burst");
  EXPECT_EQ(lines({{minute, denied(100, 0, 30'000'000'001ns, 40s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=0;t=31") + try_again_after(31));
  // A request of more units than are left.
  EXPECT_EQ(lines({{minute, denied(100, 5, 7s, 40s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=0;t=7") + try_again_after(7));
  // Less than a second, or unknown as when the store did not answer, is 1 second.
  const std::string soon = told("\"burst\";q=100;w=60", "\"burst\";r=0;t=1") + try_again_after(1);
  EXPECT_EQ(lines({{minute, denied(100, 0, 1ns, 40s)}}), soon);
  EXPECT_EQ(lines({{minute, {.source = Source::kUnavailable}}}), soon);
}

TEST(HttpHeaders, ARequestThatIsNeverAdmittedIsNotToldToComeBack) {
  const Limit minute("fixed_window 100/1m", "burst");
  EXPECT_EQ(lines({{minute, denied(100, 50, kNever, 40s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=50;t=30") + "Cache-Control: no-store\n");
  EXPECT_EQ(lines({{minute, denied(100, 0, kNever, 40s)}}),
            told("\"burst\";q=100;w=60", "\"burst\";r=0;t=40") + "Cache-Control: no-store\n");
}

TEST(HttpHeaders, TheWindowOfABucketIsTheTimeToRefillIt) {
  EXPECT_EQ(lines({{Limit("token_bucket 3/10s burst=6", "api"), admitted(6, 3, 10s)}}),
            told("\"api\";q=6;w=21", "\"api\";r=3;t=11"));
  EXPECT_EQ(lines({{Limit("leaky_bucket 10/1s queue=49", "sms"), admitted(50, 49, 100ms)}}),
            told("\"sms\";q=50;w=5", "\"sms\";r=49;t=5"));
}

TEST(HttpHeaders, AWindowBelowASecondIsNotTold) {
  EXPECT_EQ(lines({{Limit("token_bucket 100/1s burst=10", "api"), admitted(10, 3, 70ms)}}),
            told("\"api\";q=10", "\"api\";r=3"));
  EXPECT_EQ(lines({{Limit("fixed_window 5/999999999ns", "api"), denied(5, 0, 1ns, 1ns)}}),
            told("\"api\";q=5", "\"api\";r=0") + try_again_after(1));
  EXPECT_EQ(lines({{Limit("fixed_window 5/1s", "api"), admitted(5, 4, 1s)}}),
            told("\"api\";q=5;w=1", "\"api\";r=4;t=1"));
}

TEST(HttpHeaders, PermitsHaveAUnitAndNoWindow) {
  const Limit jobs("concurrency 4 lease=30s", "jobs");
  EXPECT_EQ(lines({{jobs, admitted(4, 3, 30s)}}),
            told("\"jobs\";q=4;qu=\"concurrent-requests\"", "\"jobs\";r=3"));
  EXPECT_EQ(lines({{jobs, denied(4, 0, 12s, 30s)}}),
            told("\"jobs\";q=4;qu=\"concurrent-requests\"", "\"jobs\";r=0") + try_again_after(12));
}

TEST(HttpHeaders, SeveralLimitsAreSeveralMembersInTheirOrder) {
  const Limit burst("token_bucket 10/1s burst=100", "burst");
  const Limit daily("fixed_window 1000/1d", "daily");
  EXPECT_EQ(lines({{burst, admitted(100, 50, 5s)}, {daily, admitted(1000, 1, 1h)}}),
            told("\"burst\";q=100;w=10, \"daily\";q=1000;w=86400",
                 "\"burst\";r=50;t=5, \"daily\";r=1;t=87"));
  // The example of docs/http-headers.md.
  EXPECT_EQ(lines({{burst, admitted(100, 50, 5s)}, {daily, denied(1000, 0, 1h, 1h)}}),
            told("\"burst\";q=100;w=10, \"daily\";q=1000;w=86400",
                 "\"burst\";r=50;t=5, \"daily\";r=0;t=3600") +
                try_again_after(3600));
  // The longest wait counts, and `never` is the longest.
  EXPECT_EQ(lines({{burst, denied(100, 0, 2s, 10s)}, {daily, denied(1000, 0, 1h, 1h)}}),
            told("\"burst\";q=100;w=10, \"daily\";q=1000;w=86400",
                 "\"burst\";r=0;t=2, \"daily\";r=0;t=3600") +
                try_again_after(3600));
  EXPECT_EQ(lines({{burst, denied(100, 0, kNever, 10s)}, {daily, denied(1000, 0, 1h, 1h)}}),
            told("\"burst\";q=100;w=10, \"daily\";q=1000;w=86400",
                 "\"burst\";r=0;t=10, \"daily\";r=0;t=3600") +
                "Cache-Control: no-store\n");
}

TEST(HttpHeaders, AJoinedLimitHasAPolicyForEachPart) {
  const Limit api("token_bucket 100/1s burst=200 & fixed_window 1000/1d", "api");
  EXPECT_EQ(lines({{api, admitted(200, 20, 2s)}}),
            told("\"api\";q=200;w=2, \"api.2\";q=1000;w=86400", "\"api\";r=20;t=1"));
  EXPECT_EQ(lines({{api, denied(1000, 0, 1h, 1h)}}),
            told("\"api\";q=200;w=2, \"api.2\";q=1000;w=86400", "\"api.2\";r=0;t=3600") +
                try_again_after(3600));
}

TEST(HttpHeaders, OfEqualPartsTheBindingOneIsTold) {
  const Limit same("sliding_log 3/1m & sliding_log 3/1h", "sms");
  const std::string policies = "\"sms\";q=3;w=60, \"sms.2\";q=3;w=3600";
  Decision decision = denied(3, 0, 20s, 1min);
  EXPECT_EQ(lines({{same, decision}}), told(policies, "\"sms\";r=0;t=20") + try_again_after(20));
  decision = admitted(3, 1, 1h);
  decision.binding = 1;
  EXPECT_EQ(lines({{same, decision}}), told(policies, "\"sms.2\";r=1;t=1200"));
  decision.binding = 2;  // Of a list of claims: the one with the longest window.
  EXPECT_EQ(lines({{same, decision}}), told(policies, "\"sms.2\";r=1;t=1200"));
}

TEST(HttpHeaders, PartsWithDecisionsOfTheirOwnHaveAMemberEach) {
  const std::vector<Limit> parts =
      Limit("token_bucket 100/1s burst=200 & fixed_window 1000/1d", "api").parts();
  EXPECT_EQ(lines({{parts[0], admitted(200, 20, 2s)}, {parts[1], admitted(1000, 999, 1h)}}),
            told("\"api\";q=200;w=2, \"api.2\";q=1000;w=86400",
                 "\"api\";r=20;t=1, \"api.2\";r=999;t=86314"));
}

TEST(HttpHeaders, ALimitWithoutANameIsCalledByItsExpression) {
  EXPECT_EQ(
      lines({{Limit("gcra 5/s burst=10"), admitted(10, 5, 1s)}}),
      told("\"token_bucket 5/1s burst=10\";q=10;w=2", "\"token_bucket 5/1s burst=10\";r=5;t=1"));
}

TEST(HttpHeaders, NumbersEndAtTheLargestIntegerOfAField) {
  const std::int64_t most = 9'007'199'254'740'991;
  const Limit huge("fixed_window 9007199254740991/2305843009213693952ns", "huge");
  EXPECT_EQ(
      lines({{huge, admitted(most, most, 0s)}}),
      told("\"huge\";q=999999999999999;w=2305843010", "\"huge\";r=999999999999999;t=2305843010"));
  EXPECT_EQ(lines({{huge, admitted(most, most, 0s)}}, HeaderStyle::kXRateLimit),
            "X-RateLimit-Limit: 999999999999999\n"
            "X-RateLimit-Remaining: 999999999999999\n"
            "X-RateLimit-Reset: 0\n");
}

TEST(HttpHeaders, TheQuotaIsThatOfTheDecision) {
  // The limit was replaced after the decision.
  EXPECT_EQ(lines({{Limit("fixed_window 10/1m", "api"), admitted(20, 15, 1min)}}),
            told("\"api\";q=20;w=60", "\"api\";r=15;t=45"));
}

TEST(HttpHeaders, OtherStylesTellOfTheLimitThatBinds) {
  const Limit burst("token_bucket 10/1s burst=100", "burst");
  const Limit daily("fixed_window 1000/1d", "daily");
  const Answers both = {{burst, admitted(100, 50, 5s)}, {daily, admitted(1000, 1, 100ms)}};
  const std::string numbers = "-Limit: 1000\n", left = "-Remaining: 1\n", reset = "-Reset: 1\n";
  EXPECT_EQ(lines(both, HeaderStyle::kXRateLimit),
            "X-RateLimit" + numbers + "X-RateLimit" + left + "X-RateLimit" + reset);
  EXPECT_EQ(lines(both, HeaderStyle::kDraft3),
            "RateLimit" + numbers + "RateLimit" + left + "RateLimit" + reset);

  EXPECT_EQ(lines({{daily, admitted(1000, 0, 1h)}, {burst, denied(100, 2, 2s, 10s)}},
                  HeaderStyle::kXRateLimit),
            "X-RateLimit-Limit: 100\n"
            "X-RateLimit-Remaining: 2\n"
            "X-RateLimit-Reset: 10\n" +
                try_again_after(2));
  EXPECT_EQ(lines({{burst, denied(100, 2, 2s, 10s)}, {daily, denied(1000, 3, kNever, 1h)}},
                  HeaderStyle::kDraft3),
            "RateLimit-Limit: 1000\n"
            "RateLimit-Remaining: 3\n"
            "RateLimit-Reset: 3600\n"
            "Cache-Control: no-store\n");
}

TEST(HttpHeaders, TheResetOfTheEpochStyleIsAUnixTime) {
  const Limit daily("fixed_window 1000/1d", "daily");
  const std::chrono::system_clock::time_point now(1'700'000'000'500ms);
  EXPECT_EQ(lines({{daily, admitted(1000, 1, 10s)}}, HeaderStyle::kXRateLimitEpoch, now),
            "X-RateLimit-Limit: 1000\n"
            "X-RateLimit-Remaining: 1\n"
            "X-RateLimit-Reset: 1700000011\n");
  // The end of 64-bit nanoseconds.
  EXPECT_EQ(lines({{daily, admitted(1000, 1, std::chrono::nanoseconds::max())}},
                  HeaderStyle::kXRateLimitEpoch, now),
            "X-RateLimit-Limit: 1000\n"
            "X-RateLimit-Remaining: 1\n"
            "X-RateLimit-Reset: 9223372037\n");
}

TEST(HttpHeaders, AnAdmissionByThePolicyTellsNothingOfWhatIsLeft) {
  const Limit minute("fixed_window 100/1m", "burst");
  const Decision unasked{.allowed = true, .source = Source::kPolicy, .limit = 100};
  EXPECT_EQ(lines({{minute, unasked}}), "RateLimit-Policy: \"burst\";q=100;w=60\n");
  EXPECT_EQ(lines({{minute, unasked}}, HeaderStyle::kDraft3), "");
  const Decision refused{
      .source = Source::kPolicy, .limit = 100, .retry_after = 1s, .reset_after = 1s};
  EXPECT_EQ(lines({{minute, refused}}, HeaderStyle::kDraft3),
            "RateLimit-Limit: 100\n"
            "RateLimit-Remaining: 0\n"
            "RateLimit-Reset: 1\n" +
                try_again_after(1));
}

TEST(HttpHeaders, WithoutAStyleOnlyADenialHasHeaders) {
  const Limit minute("fixed_window 100/1m", "burst");
  EXPECT_EQ(lines({{minute, admitted(100, 50, 20s)}}, HeaderStyle::kNone), "");
  EXPECT_EQ(lines({{minute, denied(100, 0, 2s, 20s)}}, HeaderStyle::kNone),
            "Retry-After: 2\nCache-Control: no-store\n");
  EXPECT_EQ(lines({}), "");
}

TEST(HttpHeaders, AStyleHasAName) {
  EXPECT_EQ(header_style("ietf-11"), HeaderStyle::kIetf11);
  EXPECT_EQ(header_style("x-ratelimit"), HeaderStyle::kXRateLimit);
  EXPECT_EQ(header_style("x-ratelimit-epoch"), HeaderStyle::kXRateLimitEpoch);
  EXPECT_EQ(header_style("draft-3"), HeaderStyle::kDraft3);
  EXPECT_EQ(header_style("none"), HeaderStyle::kNone);
  EXPECT_EQ(error_of<std::invalid_argument>([] { header_style("ietf-10"); }),
            "there is no style of headers 'ietf-10'; there are ietf-11 x-ratelimit "
            "x-ratelimit-epoch draft-3 none");
}

}  // namespace
}  // namespace sluice

// Which limits are valid, which are rejected, and the position in the error.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "conformance/scenario.h"
#include "core/limit_syntax.h"
#include "model/model.h"
#include "sluice/limit.h"

namespace sluice::conformance {
namespace {

using testing::EndsWith;
using testing::HasSubstr;

struct Refusal {
  std::string expression;
  /// The offset of the wrong character.
  std::size_t position = 0;
  /// A part of the message.
  std::string says;
};

std::ostream& operator<<(std::ostream& out, const Refusal& r) {
  return out << r.expression;
}

class Refused : public testing::TestWithParam<Refusal> {};

TEST_P(Refused, PointsAtTheWrongCharacter) {
  const Refusal& expected = GetParam();
  try {
    const Limit limit(expected.expression);
    FAIL() << "accepted as " << limit.expression();
  } catch (const InvalidLimit& error) {
    EXPECT_EQ(error.position(), expected.position) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(expected.says));
    // One line, whatever the text was made of, and bounded.
    EXPECT_EQ(std::string(error.what()).find_first_of("\n\x1b"), std::string::npos);
    EXPECT_LT(std::string(error.what()).size(), kMaxExpressionBytes + 200);
    EXPECT_THAT(error.what(), EndsWith("at character " + std::to_string(error.position() + 1)));
  }
}

std::string joined(int parts) {
  std::string text = "fixed_window 1/1s";
  for (int i = 1; i < parts; ++i) text += " & fixed_window 1/" + std::to_string(i + 1) + "s";
  return text;
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Refused,
    testing::Values(
        Refusal{"", 0, "name"}, Refusal{"   ", 3, "name"},
        Refusal{"tokenbucket 1/1s", 0, "tokenbucket"},
        Refusal{"Token_bucket 1/1s", 0, "Token_bucket"}, Refusal{"token_bucket", 12, "count"},
        Refusal{"token_bucket ", 13, "count"}, Refusal{"token_bucket /1s", 13, "count"},
        Refusal{"token_bucket & token_bucket 5/1s", 13, "count"},
        Refusal{"token_bucket burst=2", 13, "burst=2"},
        Refusal{"token_bucket 5 burst=2", 14, "duration"},
        Refusal{"token_bucket 5", 14, "duration"}, Refusal{"token_bucket 5/", 15, "duration"},
        Refusal{"token_bucket 5/1", 16, "unit"}, Refusal{"token_bucket 5/1x", 16, "unit"},
        Refusal{"token_bucket 5/1h30", 19, "unit"}, Refusal{"token_bucket 5/1S", 16, "unit"},
        Refusal{"token_bucket 5/-1s", 15, "unit"}, Refusal{"token_bucket -5/1s", 13, "-5"},
        Refusal{"token_bucket +5/1s", 13, "+5"}, Refusal{"token_bucket 5.5/1s", 13, "5.5"},
        Refusal{"token_bucket 1e3/1s", 13, "1e3"}, Refusal{"token_bucket 0x10/1s", 13, "0x10"},
        Refusal{"token_bucket 5/1s &", 19, "name"}, Refusal{"& token_bucket 5/1s", 0, "name"},
        Refusal{"token_bucket 5/1s && token_bucket 5/1s", 19, "name"},
        Refusal{"token_bucket 5/1s & nothing 5/1s", 20, "nothing"},
        Refusal{joined(9), joined(8).size() + 3, "8"},
        Refusal{"5/1m", 0, "algorithm's name is missing"},
        Refusal{"gcra 5/1m & 5/1m", 12, "algorithm's name is missing"},
        Refusal{"gcra 5 /1s", 7, "name=value"}, Refusal{"gcra 5/ 1s", 7, "duration is missing"},
        Refusal{"gcra 5/1s/2s", 9, "unit"}, Refusal{"gcra 5/1s,gcra 5/1s", 9, "unit"},
        Refusal{"gcra 5/1s b & gcra 5/1s d=1", 10, "name=value"},
        Refusal{"a\n5\x1b[2J", 0, "there is no algorithm"},
        Refusal{std::string(kMaxExpressionBytes + 1, 'a'), kMaxExpressionBytes, "1024"},
        Refusal{std::string(5'000, 'a'), kMaxExpressionBytes, "1024"}));

INSTANTIATE_TEST_SUITE_P(
    Durations, Refused,
    testing::Values(Refusal{"gcra 5/1min", 8,
                            "the unit 'min' is unknown; the units of time are ns"},
                    Refusal{"gcra 5/s1m", 7, "a number is missing"},
                    Refusal{"gcra 5/1.5s", 8, "unit"}, Refusal{"gcra 5/1h.m", 9, "unit"},
                    Refusal{"gcra 5/sm", 7, "unit"}, Refusal{"gcra 5/0h0m", 7, "at least 1ns"},
                    Refusal{"gcra 5/1h99999999999999999999s", 9, "99999999999999999999"},
                    Refusal{"gcra 5/3813w", 7, "73 years"}));

INSTANTIATE_TEST_SUITE_P(
    Options, Refused,
    testing::Values(
        Refusal{"token_bucket 5/1s burst", 18, "="}, Refusal{"token_bucket 5/1s burst=", 24, ""},
        Refusal{"token_bucket 5/1s burst=0", 24, "0"},
        Refusal{"token_bucket 5/1s burst=x", 24, "x"},
        Refusal{"token_bucket 5/1s burst=2 burst=3", 26, "twice"},
        Refusal{"token_bucket 5/1s queue=2", 18, "queue"},
        Refusal{"token_bucket 5/1s borrow=maybe", 25, "yes"},
        Refusal{"leaky_bucket 5/1s", 0, "queue"}, Refusal{"leaky_bucket 5/1s queue=-1", 24, "-1"},
        Refusal{"leaky_bucket 5/1s queue=2 burst=3", 26, "burst"},
        Refusal{"fixed_window 5/1s anchor=last", 25, "first"},
        Refusal{"fixed_window 5/1s precision=1s", 18, "precision"},
        Refusal{"sliding_log 5/1s burst=2", 17, "burst"},
        Refusal{"sliding_log 5/1s anchor=first", 17, "anchor"},
        Refusal{"sliding_counter 5/1s strict=no", 21, "strict"},
        Refusal{"sliding_window 5/1s strict=1", 27, "yes"},
        Refusal{"sliding_window 5/1s precision=0s", 30, ""},
        Refusal{"sliding_window 5/1s precision=1", 31, "unit"},
        Refusal{"concurrency 5 lease=0s", 20, ""}, Refusal{"concurrency 5 lease=3", 21, "unit"},
        Refusal{"concurrency 5 burst=2", 14, "burst"},
        Refusal{"concurrency 5/1s", 14, "no duration"},
        Refusal{"concurrency 5 & fixed_window 5/1s", 0, "&"},
        Refusal{"fixed_window 5/1s & concurrency 5", 20, "&"},
        Refusal{"fixed_window 5/1s & sliding_window 5/1s precision=2s", 50, ""},
        Refusal{"gcra 1/s brust=1", 9, "no option 'brust' (did you mean 'burst'?); it has"},
        Refusal{"gcra 1/s burst=1 b=1", 17, "has no option 'b'; it has burst borrow"},
        Refusal{"sliding_log 1/s b=1", 16, "sliding_log has no option 'b', nor any other"},
        Refusal{"leaky_bucket 1/s queue=-0", 23, "'-0' is not a whole number from 0"},
        Refusal{"leaky_bucket 1/s queue=+1", 23, "whole number"},
        Refusal{"leaky_bucket 1/s queue=1.", 23, "whole number"}));

INSTANTIATE_TEST_SUITE_P(
    Numbers, Refused,
    testing::Values(Refusal{"fixed_window 0/1s", 13, "0"},
                    Refusal{"fixed_window 9007199254740992/1s", 13, "9007199254740991"},
                    Refusal{"fixed_window 99999999999999999999/1s", 13, "99999999999999999999"},
                    Refusal{"fixed_window 5/0s", 15, "1ns"},
                    Refusal{"fixed_window 5/2305843009213693953ns", 15, "73 years"},
                    Refusal{"fixed_window 5/99999999999999999999ns", 15, ""},
                    Refusal{"fixed_window 5/9999999999999w", 15, "2^61"},
                    Refusal{"fixed_window 5/2305843009213693952ns1ns", 36, "2^61"},
                    Refusal{"sliding_log 65537/1s", 12, "65536"},
                    Refusal{"concurrency 65537", 12, "65536"}, Refusal{"concurrency 0", 12, "0"},
                    Refusal{"concurrency 5 lease=2305843009213693953ns", 20, "73 years"},
                    Refusal{"sliding_counter 5/9007199254740993ns", 18, "2^53"},
                    Refusal{"sliding_window 5/1s precision=1001ms", 30, ""},
                    Refusal{"sliding_window 5/1001ns precision=1ns", 34, "1000"},
                    Refusal{
                        "sliding_window 5/2305843009213693952ns precision=1537228672809129302ns",
                        17, "2^62"},
                    Refusal{"token_bucket 5/1s burst=9007199254740992", 24, "9007199254740991"},
                    Refusal{"leaky_bucket 5/1s queue=9007199254740991", 24, ""},
                    Refusal{"token_bucket 1/2305843009213693952ns burst=2", 43, "2^61"},
                    Refusal{"token_bucket 3/2305843009213693952ns", 15, "2^61"},
                    Refusal{"leaky_bucket 1/2305843009213693952ns queue=1", 43, "2^61"},
                    Refusal{"token_bucket 1/1s burst=2305843010", 24, "2^61"},
                    Refusal{"leaky_bucket 1/1s queue=2305843009", 24, "2^61"}));

TEST(Definitions, TheGreatestNumbersAreAccepted) {
  for (const std::string expression :
       {"fixed_window 9007199254740991/2305843009213693952ns", "sliding_log 65536/1ns",
        "sliding_counter 9007199254740991/9007199254740992ns",
        "sliding_window 5/1000ns precision=1ns", "sliding_window 5/1s precision=1s",
        "sliding_window 5/2305843009213693952ns precision=2305843009213693952ns",
        "sliding_window 5/2305843009213693952ns precision=1537228672809129301ns",
        "sliding_window 5/2305843009213693952ns precision=2305843009213693951ns strict=no",
        "token_bucket 1/2305843009213693952ns", "token_bucket 1/1s burst=2305843009",
        "concurrency 65536 lease=2305843009213693952ns", "concurrency 1 lease=1ns",
        "leaky_bucket 1/1s queue=2305843008", "leaky_bucket 1/1s queue=0",
        "token_bucket 9007199254740991/1ns burst=9007199254740991"}) {
    EXPECT_NO_THROW(Limit{expression}) << expression;
  }
  EXPECT_NO_THROW(Limit{joined(8)});
}

// A change of these texts changes the names of keys in a server.
TEST(Definitions, DifferentTextsOfOneLimitAreOneExpression) {
  const auto canonical = [](const std::string& text) { return Limit(text).expression(); };
  EXPECT_EQ(canonical("token_bucket 100/s"), "token_bucket 100/1s");
  EXPECT_EQ(canonical("gcra 100/1s"), "token_bucket 100/1s");
  EXPECT_EQ(canonical("gcra 1/90s borrow=yes burst=5"), "token_bucket 1/1m30s burst=5 borrow=yes");
  EXPECT_EQ(canonical("gcra 1/90s burst=5 borrow=yes"), "token_bucket 1/1m30s burst=5 borrow=yes");
  EXPECT_EQ(canonical("gcra 100/s burst=100 borrow=no"), "token_bucket 100/1s");
  EXPECT_EQ(canonical("leaky_bucket 600/60s queue=0"), "leaky_bucket 600/1m queue=0");
  EXPECT_EQ(canonical("fixed_window 5/60s anchor=clock"), "fixed_window 5/1m");
  EXPECT_EQ(canonical("fixed_window 5/m anchor=first"), "fixed_window 5/1m anchor=first");
  EXPECT_EQ(canonical("sliding_log 5/90m"), "sliding_log 5/1h30m");
  EXPECT_EQ(canonical("sliding_log 5/7d"), "sliding_log 5/1w");
  EXPECT_EQ(canonical("sliding_log 5/1000us"), "sliding_log 5/1ms");
  EXPECT_EQ(canonical("sliding_window 1000/1h precision=6m strict=yes"), "sliding_window 1000/1h");
  EXPECT_EQ(canonical("sliding_window 10/1m strict=no precision=25s"),
            "sliding_window 10/1m precision=25s strict=no");
  EXPECT_EQ(canonical("sliding_counter 5/90m"), "sliding_counter 5/1h30m");
  EXPECT_EQ(canonical("concurrency 5 lease=1m"), "concurrency 5");
  EXPECT_EQ(canonical("concurrency 5 lease=90s"), "concurrency 5 lease=1m30s");
  EXPECT_EQ(canonical("  sliding_log   5/1s&fixed_window\t5/m "),
            "sliding_log 5/1s & fixed_window 5/1m");
}

TEST(Definitions, TheCanonicalExpressionReadsBackAsItself) {
  rc::detail::checkGTest([] {
    const Wanted joined{.most_limits = 4, .most_parts = 8};
    const Wanted alone{.kinds = kEveryKind, .most_limits = 4};
    const auto scenario = *scenarios(*rc::gen::element(joined, alone));
    for (const auto& limits : scenario.limits) {
      const Limit limit(expression(limits));
      const Limit again(limit.expression());
      RC_ASSERT(again.expression() == limit.expression());
      RC_ASSERT(limit.space() == limit.expression());
    }
  });
}

// The model knows the ranges from the definitions; the parser must reject exactly the rest.
TEST(Definitions, LimitsOutsideTheRangesAreRejected) {
  rc::detail::checkGTest([] {
    const auto scenario = *scenarios({.kinds = kEveryKind, .most_limits = 1});
    model::ModelLimit limit = scenario.limits.front().front();
    const auto extreme =
        rc::gen::oneOf(rc::gen::element<std::int64_t>(
                           0, 1, 2, 999, 1000, 1001, 65'536, 65'537, std::int64_t{kMaxCount},
                           kMaxCount + 1, kMaxCount + 2, kMaxDurationNs, kMaxDurationNs + 1,
                           kMaxDurationNs / 2, kMaxDurationNs / 2 + 1),
                       rc::gen::inRange<std::int64_t>(0, 5000));
    if (*rc::gen::arbitrary<bool>()) limit.count = *extreme;
    if (*rc::gen::arbitrary<bool>()) limit.window_ns = *extreme;
    if (limit.burst) limit.burst = *extreme;
    if (limit.precision_ns) limit.precision_ns = *extreme;
    limit.queue = *extreme;
    RC_LOG(limit.expression());
    bool accepted = true;
    try {
      const Limit defined(limit.expression());
    } catch (const InvalidLimit& error) {
      accepted = false;
      RC_ASSERT(error.position() <= limit.expression().size());
    }
    RC_ASSERT(accepted == limit.definable());
  });
}

TEST(Definitions, ANameIsTheSpace) {
  EXPECT_EQ(Limit("token_bucket 5/1s", "login").space(), "login");
  EXPECT_EQ(Limit("token_bucket 5/s").space(), Limit("gcra 5/1s").expression());
  EXPECT_EQ(Limit("token_bucket 5/1s", "A-z_0.9").space(), "A-z_0.9");
  EXPECT_NO_THROW(Limit("token_bucket 5/1s", std::string(64, 'x')));
  for (const std::string name : {"a b", "a/b", "a\n", "\xc3\xa9"}) {
    EXPECT_THROW(Limit("token_bucket 5/1s", name), InvalidLimit) << name;
  }
  EXPECT_THROW(Limit("token_bucket 5/1s", std::string(65, 'x')), InvalidLimit);
}

}  // namespace
}  // namespace sluice::conformance

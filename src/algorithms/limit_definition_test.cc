#include "algorithms/limit_definition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "sluice/limit.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

TEST(LimitDefinition, ALimitTellsWhatItIsMadeOf) {
  const Limit window("sliding_window 1000/1h30m precision=60s", "api");
  EXPECT_EQ(window.algorithm(), "sliding_window");
  EXPECT_EQ(window.count(), 1000);
  EXPECT_EQ(window.window(), 90min);

  const Limit bucket("gcra 100/s burst=200");
  EXPECT_EQ(bucket.algorithm(), "token_bucket");
  EXPECT_EQ(bucket.count(), 100);
  EXPECT_EQ(bucket.window(), 1s);

  const Limit permits("concurrency 4 lease=30s");
  EXPECT_EQ(permits.algorithm(), "concurrency");
  EXPECT_EQ(permits.count(), 4);
  EXPECT_EQ(permits.window(), 0s);
}

// By which a store with more keys than it has room for judges them.
TEST(LimitDefinition, ANumberTellsWhatAKeyMayHaveUsedWithoutDenying) {
  struct Row {
    const char* expression;
    std::int64_t most_used;
  };
  for (const Row& row : {Row{"token_bucket 4/1s", 750'000'000},
                         {"token_bucket 1/1s", 0},
                         {"token_bucket 4/1s borrow=yes", kSecondNs},
                         {"token_bucket 1/2305843009213693952ns borrow=yes", kMaxDurationNs - 1},
                         {"leaky_bucket 4/1s queue=2", 500'000'000},
                         {"fixed_window 7/1s", 6},
                         {"sliding_log 7/1s", 6},
                         {"sliding_window 7/1s strict=no", 6},
                         {"sliding_counter 7/1s", 6},
                         {"concurrency 7", 6}}) {
    const auto parts = parse_parts(row.expression);
    std::visit(
        [&]<class P>(const P& part) {
          using A = typename P::Algorithm;
          EXPECT_EQ(most_used<A>(part.params), row.most_used) << row.expression;
          const P same{with_most_used<A>(part.params, row.most_used)};
          EXPECT_EQ(most_used<A>(same.params), row.most_used) << row.expression;
          EXPECT_TRUE(keeps_state(parts, {same})) << row.expression;
        },
        parts[0]);
  }
}

TEST(LimitDefinition, AnAlgorithmThatDoesNotExistIsNamedBeforeAMissingCount) {
  for (const char* expression :
       {"token_buket", "token_buket 5", "fixed_window 1/1s & token_buket"}) {
    EXPECT_THAT(error_of<InvalidLimit>([&] { const Limit limit(expression); }),
                testing::HasSubstr("(did you mean 'token_bucket'?)"))
        << expression;
  }
  EXPECT_THROW(Limit("token_bucket"), InvalidLimit);
}

TEST(LimitDefinition, WarnsOfARateThatIsRounded) {
  EXPECT_EQ(Limit("token_bucket 700000000/1s burst=9").warning(),
            "'token_bucket 700000000/1s burst=9' admits 500000000/1s: the time after which a unit "
            "returns is rounded up to 2ns");
  EXPECT_EQ(Limit("fixed_window 5/1s & leaky_bucket 101000/1ms queue=5").warning(),
            "'leaky_bucket 101000/1ms queue=5' admits 100000000/1s: the time after which a unit "
            "returns is rounded up to 10ns");
  for (const char* expression :
       {"token_bucket 200000000/1s", "token_bucket 100000000/1s", "token_bucket 70000000/1s",
        "token_bucket 3/1s", "fixed_window 700000000/1s", "concurrency 5"}) {
    EXPECT_EQ(Limit(expression).warning(), "") << expression;
  }
}

// Of a bucket, its burst and the time to refill it.
TEST(LimitDefinition, TheQuotaIsWhatIsAdmittedAtOnce) {
  const std::pair<const char*, LimitNumbers> rows[] = {
      {"token_bucket 3/10s burst=6", {3, 10 * kSecondNs, 6, 6 * 3'333'333'334}},
      {"leaky_bucket 1/2s queue=4", {1, 2 * kSecondNs, 5, 10 * kSecondNs}},
      {"fixed_window 7/20s", {7, 20 * kSecondNs, 7, 20 * kSecondNs}},
      {"sliding_log 7/20s", {7, 20 * kSecondNs, 7, 20 * kSecondNs}},
      {"sliding_window 7/20s", {7, 20 * kSecondNs, 7, 20 * kSecondNs}},
      {"sliding_counter 7/20s", {7, 20 * kSecondNs, 7, 20 * kSecondNs}},
      {"concurrency 7", {7, 0, 7, 0}}};
  for (const auto& [expression, numbers] : rows) {
    EXPECT_EQ(numbers_of(parse_parts(expression).front()), numbers) << expression;
  }
}

TEST(LimitDefinition, PartsAreLimitsWithNamesOfTheirOwn) {
  const Limit joined("token_bucket 100/1s & fixed_window 10/1d & sliding_log 3/1h", "api");
  EXPECT_EQ(joined.algorithm(), "token_bucket");
  const std::vector<Limit> parts = joined.parts();
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].space(), "api");
  EXPECT_EQ(parts[0].expression(), "token_bucket 100/1s");
  EXPECT_EQ(parts[1].space(), "api.2");
  EXPECT_EQ(parts[1].algorithm(), "fixed_window");
  EXPECT_EQ(parts[1].count(), 10);
  EXPECT_EQ(parts[1].window(), 24h);
  EXPECT_EQ(parts[2].space(), "api.3");
  EXPECT_EQ(parts[2].expression(), "sliding_log 3/1h");

  const std::vector<Limit> unnamed = Limit("fixed_window 5/1s & sliding_log 3/1h").parts();
  ASSERT_EQ(unnamed.size(), 2U);
  EXPECT_EQ(unnamed[0].space(), "fixed_window 5/1s");
  EXPECT_EQ(unnamed[1].space(), "sliding_log 3/1h");
}

TEST(LimitDefinition, ALimitWithoutPartsIsItsOwnPart) {
  const Limit limit("fixed_window 5/1s", "login");
  ASSERT_EQ(limit.parts().size(), 1U);
  EXPECT_EQ(&limit.parts().front().definition(), &limit.definition());
}

}  // namespace
}  // namespace sluice

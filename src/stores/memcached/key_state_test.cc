#include "stores/memcached/key_state.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <limits>

#include "sluice/limit.h"

namespace sluice::memcached {
namespace {

constexpr Instant kStateNow = 1'700'000'000 * kSecondNs + 5;

// One limit of each kind, and what its numbers may become.
const std::vector<std::string> kExpressions{
    "token_bucket 5/1s burst=9",
    "token_bucket 3/1s borrow=yes",
    "leaky_bucket 10/1s queue=7",
    "fixed_window 5/1s",
    "fixed_window 9007199254740991/1s anchor=first",
    "sliding_log 6/1s",
    "sliding_window 8/1s precision=300ms",
    "sliding_counter 7/1s",
    "sliding_log 4/1s & token_bucket 5/1s & fixed_window 6/3s & sliding_window 9/2s",
    "concurrency 3 lease=1s"};

Request take(const Limit& limit, std::int64_t cost = 1) {
  return {.limit = &limit.definition(), .key = "k", .cost = cost, .permit = 1};
}

std::string value_of(const KeyState& state) {
  std::string value;
  state.write(value);
  return value;
}

std::string spent(const Limit& limit) {
  KeyState state;
  state.judge(take(limit), kStateNow);
  return value_of(state);
}

std::string blocked(const Limit& limit) {
  KeyState state;
  state.judge(take(limit), kStateNow);
  Request block = take(limit);
  block.operation = Operation::kBlock;
  block.duration_ns = kSecondNs;
  state.judge(block, kStateNow);
  return value_of(state);
}

TEST(KeyState, IsFreshAtFirst) {
  KeyState state;
  const Limit limit("fixed_window 5/1s");
  EXPECT_TRUE(state.is_gone());
  EXPECT_EQ(state.judge(take(limit, 0), kStateNow).remaining, 5);
  EXPECT_FALSE(state.changed());
  EXPECT_TRUE(state.judge(take(limit, 2), kStateNow).allowed);
  EXPECT_TRUE(state.changed());
  EXPECT_FALSE(state.is_gone());
  EXPECT_EQ(state.lifetime_ns(), kSecondNs - 5);
}

TEST(KeyState, WhatIsDeniedChangesNothing) {
  KeyState state;
  const Limit limit("fixed_window 5/1s & sliding_log 3/1s");
  EXPECT_FALSE(state.judge(take(limit, 4), kStateNow).allowed);
  EXPECT_FALSE(state.changed());
}

TEST(KeyState, AValueSaysByWhatItWasMade) {
  const std::string value = spent(Limit("sliding_log 5/10m"));
  EXPECT_EQ(value.substr(2, 17), "sliding_log 5/10m");
}

TEST(KeyState, AResetLeavesNothing) {
  const Limit limit("token_bucket 5/1s");
  KeyState state;
  ASSERT_TRUE(state.read(spent(limit), limit.definition()));
  Request reset = take(limit);
  reset.operation = Operation::kReset;
  EXPECT_EQ(state.judge(reset, kStateNow).remaining, 5);
  EXPECT_TRUE(state.changed());
  EXPECT_TRUE(state.is_gone());
  EXPECT_EQ(state.judge(take(limit, 2), kStateNow).remaining, 3);
  EXPECT_FALSE(state.is_gone());
}

TEST(KeyState, NothingCanBeGivenBackToAFreshKey) {
  const Limit limit("token_bucket 5/1s");
  KeyState state;
  Request refund = take(limit);
  refund.operation = Operation::kRefund;
  EXPECT_EQ(state.judge(refund, kStateNow).remaining, 5);
  EXPECT_FALSE(state.changed());
}

TEST(KeyState, KeepsItsStateUnderOtherNumbers) {
  KeyState state;
  const Limit before("fixed_window 5/1s");
  const Limit after("fixed_window 8/1s");
  const Limit another("fixed_window 8/2s");
  ASSERT_TRUE(state.read(spent(before), after.definition()));
  EXPECT_EQ(state.judge(take(after, 0), kStateNow).remaining, 7);
  // It cannot go on from what was counted by other windows, which stays until it takes something.
  EXPECT_EQ(state.judge(take(another, 0), kStateNow).remaining, 8);
  EXPECT_EQ(state.judge(take(before, 0), kStateNow).remaining, 4);
  EXPECT_EQ(state.judge(take(another), kStateNow).remaining, 7);
  EXPECT_EQ(state.judge(take(before, 0), kStateNow).remaining, 5);
}

TEST(KeyState, RefusesDamagedValues) {
  for (const auto& expression : kExpressions) {
    const Limit limit(expression);
    for (const std::string& value : {spent(limit), blocked(limit)}) {
      KeyState state;
      for (std::size_t i = 0; i < value.size(); ++i) {
        EXPECT_FALSE(state.read(value.substr(0, i), limit.definition()));
        for (const int bit : {0, 3, 7}) {
          std::string damaged = value;
          damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
          EXPECT_FALSE(state.read(damaged, limit.definition())) << expression << " byte " << i;
        }
      }
      EXPECT_FALSE(state.read(value + "x", limit.definition()));
      EXPECT_EQ(state.judge(take(limit, 0), kStateNow),
                KeyState().judge(take(limit, 0), kStateNow));
      EXPECT_TRUE(state.read(value, limit.definition()));
    }
  }
}

TEST(KeyState, RefusesForeignValues) {
  const Limit limit("token_bucket 5/1s");
  KeyState state;
  for (const std::string& value :
       {std::string(), std::string("5"), std::string("hello, world"), std::string(100, '\1')}) {
    EXPECT_FALSE(state.read(value, limit.definition()));
  }
}

struct Asked {
  Instant now = 0;
  Request request;
};

Operation random_operation(const Limit& limit) {
  using rc::gen::element;
  constexpr auto kTake = Operation::kTake;
  if (lends(limit.definition())) {
    return *element(kTake, kTake, kTake, Operation::kRenew, Operation::kRelease, Operation::kBlock,
                    Operation::kReset);
  }
  return *element(kTake, kTake, kTake, Operation::kRefund, Operation::kReset, Operation::kCharge,
                  Operation::kTakeUpTo, Operation::kBlock);
}

Asked random_request(const Limit& limit, Instant& now) {
  using rc::gen::element;
  now += *element<std::int64_t>(-1, 0, 1, 99'999'999, kSecondNs / 3, kSecondNs, 2 * kSecondNs);
  Asked asked{.now = now, .request = take(limit, *element<std::int64_t>(0, 1, 1, 2, 5, 100))};
  asked.request.operation = random_operation(limit);
  asked.request.patience_ns = *element(kDefaultPatience, std::int64_t{0}, kSecondNs);
  asked.request.duration_ns = *element<std::int64_t>(1, kSecondNs / 3, 3 * kSecondNs);
  asked.request.permit = *element<PermitId>(1, 2, 3, 4, ~PermitId{0});
  return asked;
}

// Written and read between any two requests or not: the answers are the same.
RC_GTEST_PROP(KeyStateProperty, AValueIsTheState, ()) {
  const Limit limit(*rc::gen::elementOf(kExpressions));
  Instant now = *rc::gen::element<Instant>(10, kStateNow, kEndOfTime - 500 * kSecondNs);
  KeyState kept;
  KeyState carried;
  std::optional<std::string> value;
  const auto steps = *rc::gen::inRange(1, 60);
  for (int i = 0; i < steps; ++i) {
    const Asked asked = random_request(limit, now);
    if (now < 0) return;
    if (value) {
      RC_ASSERT(carried.read(*value, limit.definition()));
    } else {
      carried.clear();
    }
    const Decision expected = kept.judge(asked.request, asked.now);
    RC_ASSERT(carried.judge(asked.request, asked.now) == expected);
    if (!carried.changed()) continue;
    value.reset();
    if (!carried.is_gone()) value = value_of(carried);
  }
}

// Whatever the bytes: a state or a refusal.
RC_GTEST_PROP(KeyStateProperty, AnyBytesAreReadOrRefused, (const std::string& bytes)) {
  const Limit limit(*rc::gen::elementOf(kExpressions));
  KeyState state;
  state.read(bytes, limit.definition());
  RC_ASSERT(state.judge(take(limit, 0), kStateNow).allowed);
}

}  // namespace
}  // namespace sluice::memcached

// Charges, blocks, permits and taking up to n, and how a key's value holds what is left.

#include <gtest/gtest.h>

#include <limits>

#include "sluice/limit.h"
#include "stores/memcached/key_state.h"

namespace sluice::memcached {
namespace {

constexpr std::int64_t kLeaseNs = 60 * kSecondNs;
constexpr Instant kOperationsNow = 1'700'000'000 * kSecondNs + 5;

// A key of one limit whose state travels through its value at each step.
class KeyOperations : public testing::Test {
 protected:
  Decision ask(const Limit& limit, Operation operation, std::int64_t cost = 1,
               Instant now = kOperationsNow) {
    return ask({.limit = &limit.definition(), .key = "k", .operation = operation, .cost = cost},
               now);
  }
  Decision block(const Limit& limit, std::int64_t duration_ns, Instant now = kOperationsNow) {
    return ask({.limit = &limit.definition(),
                .key = "k",
                .operation = Operation::kBlock,
                .duration_ns = duration_ns},
               now);
  }
  Decision lend(const Limit& limit, Operation operation, PermitId permit,
                Instant now = kOperationsNow) {
    return ask({.limit = &limit.definition(), .key = "k", .operation = operation, .permit = permit},
               now);
  }
  Decision ask(const Request& request, Instant now) {
    state_.clear();
    EXPECT_TRUE(value_.empty() || state_.read(value_, *request.limit));
    const Decision decision = state_.judge(request, now);
    if (!state_.changed()) return decision;
    value_.clear();
    if (!state_.is_gone()) state_.write(value_);
    return decision;
  }

  KeyState state_;
  std::string value_;  // Empty: there is none.
};

TEST_F(KeyOperations, AChargeGoesIntoDebt) {
  const Limit limit("fixed_window 5/1m & token_bucket 3/1s");
  const Decision charged = ask(limit, Operation::kCharge, 8);
  EXPECT_TRUE(charged.allowed);
  EXPECT_EQ(charged.remaining, 0);
  EXPECT_EQ(charged.taken, 0);
  EXPECT_FALSE(ask(limit, Operation::kTake).allowed);
  EXPECT_EQ(ask(limit, Operation::kRefund, 4).remaining, 0);
  EXPECT_EQ(ask(limit, Operation::kRefund, 2).remaining, 1);
}

TEST_F(KeyOperations, AChargeIsHeldHoweverLarge) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  for (const std::string expression :
       {"token_bucket 5/1s", "leaky_bucket 5/1s queue=3", "fixed_window 5/1s", "sliding_log 5/1s",
        "sliding_window 5/1s", "sliding_counter 5/1s"}) {
    SCOPED_TRACE(expression);
    const Limit limit(expression);
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(ask(limit, Operation::kCharge, kMost, kOperationsNow + i).allowed);
    }
    EXPECT_EQ(ask(limit, Operation::kTake, 0, kOperationsNow + 3).remaining, 0);
    EXPECT_EQ(ask(limit, Operation::kReset).remaining, ask(limit, Operation::kTake, 0).limit);
    EXPECT_EQ(value_, "");
  }
}

TEST_F(KeyOperations, TakesUpToWhatIsThere) {
  const Limit limit("fixed_window 5/1m & sliding_log 9/1m");
  const Decision some = ask(limit, Operation::kTakeUpTo, 3);
  EXPECT_EQ(some.taken, 3);
  EXPECT_EQ(some.remaining, 2);
  const Decision rest = ask(limit, Operation::kTakeUpTo, 100);
  EXPECT_TRUE(rest.allowed);
  EXPECT_EQ(rest.taken, 2);
  const std::string value = value_;
  const Decision none = ask(limit, Operation::kTakeUpTo, 100);
  EXPECT_EQ(none, ask(limit, Operation::kTake, 1));
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(ask(limit, Operation::kTakeUpTo, 0), ask(limit, Operation::kTake, 0));
  EXPECT_EQ(value_, value);
}

TEST_F(KeyOperations, TakesUpToNothingOnCredit) {
  const Limit limit("token_bucket 5/1s borrow=yes");
  EXPECT_EQ(ask(limit, Operation::kTakeUpTo, 100).taken, 5);
  const Decision none = ask(limit, Operation::kTakeUpTo, 100);
  EXPECT_FALSE(none.allowed);
  EXPECT_EQ(none.retry_after.count(), kSecondNs / 5);
  EXPECT_TRUE(ask(limit, Operation::kTake, 9).allowed);  // As a take would.
}

TEST_F(KeyOperations, TakesUpToWhatAQueueHolds) {
  const Limit limit("leaky_bucket 10/1s queue=4");
  ask(limit, Operation::kTake);
  const Decision taken = ask(limit, Operation::kTakeUpTo, 9);
  EXPECT_EQ(taken.taken, 4);
  EXPECT_EQ(taken.delay.count(), kSecondNs / 10);
}

TEST_F(KeyOperations, ABlockDeniesAndEnds) {
  const Limit limit("fixed_window 5/1m & token_bucket 7/1m");
  ask(limit, Operation::kTake, 2);
  const Decision blocked = block(limit, 10 * kSecondNs);
  EXPECT_TRUE(blocked.allowed);
  EXPECT_EQ(blocked.remaining, 0);
  EXPECT_EQ(value_[0], 2);
  const std::string value = value_;
  const Decision denied = ask(limit, Operation::kTake);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after.count(), 10 * kSecondNs);
  EXPECT_FALSE(ask(limit, Operation::kTakeUpTo, 9).allowed);
  EXPECT_EQ(value_, value);
  EXPECT_TRUE(ask(limit, Operation::kTake, 0).allowed);
  // The state has been kept inside, and the first take after the block writes it alone.
  EXPECT_FALSE(ask(limit, Operation::kTake, 1, kOperationsNow + 10 * kSecondNs - 1).allowed);
  EXPECT_EQ(ask(limit, Operation::kTake, 1, kOperationsNow + 10 * kSecondNs).remaining, 2);
  EXPECT_EQ(value_[0], 1);
}

TEST_F(KeyOperations, ALaterEndOfABlockStands) {
  const Limit limit("sliding_log 5/1s");
  block(limit, 10 * kSecondNs);
  EXPECT_EQ(block(limit, kSecondNs).reset_after.count(), 10 * kSecondNs);
  EXPECT_EQ(block(limit, 20 * kSecondNs).reset_after.count(), 20 * kSecondNs);
  EXPECT_EQ(block(limit, kMaxDurationNs, kEndOfTime - 1).reset_after.count(), kMaxDurationNs);
}

TEST_F(KeyOperations, AFreshKeyIsBlockedByAValueOfItsOwn) {
  const Limit limit("sliding_log 5/1s");
  block(limit, 10 * kSecondNs);
  EXPECT_EQ(state_.lifetime_ns(), 10 * kSecondNs);
  EXPECT_FALSE(state_.is_gone());
  // It stands whichever limit asks.
  EXPECT_FALSE(ask(Limit("token_bucket 5/1s"), Operation::kTake).allowed);
  EXPECT_TRUE(ask(limit, Operation::kReset).allowed);
  EXPECT_EQ(value_, "");
  EXPECT_TRUE(ask(limit, Operation::kTake).allowed);
}

// As in memory, which forgets the key as a whole where the limit becomes another.
TEST_F(KeyOperations, ABlockGoesWithWhatItsLimitCannotGoOnFrom) {
  const Limit window("fixed_window 5/1h");
  const Limit bucket("token_bucket 7/1h");
  ask(window, Operation::kTake);
  block(window, 10 * kSecondNs);
  const std::string blocked = value_;
  // A peek, and a refund that refunds nothing, leave the block.
  EXPECT_EQ(ask(bucket, Operation::kTake, 0).remaining, 7);
  EXPECT_EQ(ask(bucket, Operation::kRefund).remaining, 7);
  EXPECT_EQ(value_, blocked);
  EXPECT_FALSE(ask(Limit("fixed_window 9/1h"), Operation::kTake).allowed);
  EXPECT_EQ(ask(bucket, Operation::kTake).remaining, 6);
  EXPECT_EQ(value_[0], 1);
  EXPECT_EQ(ask(window, Operation::kTake).remaining, 4);
  // A block that is asked for lasts no longer than it says.
  value_ = blocked;
  EXPECT_EQ(block(bucket, kSecondNs).reset_after.count(), kSecondNs);
  EXPECT_EQ(ask(window, Operation::kTake, 1, kOperationsNow + kSecondNs).remaining, 4);
}

// Several are judged on one value: one of another limit that changes nothing ends no block.
TEST_F(KeyOperations, APeekLeavesABlockToTheNextRequest) {
  const Limit window("fixed_window 5/1h");
  const Limit bucket("token_bucket 7/1h");
  ask(window, Operation::kTake);
  block(window, 10 * kSecondNs);
  KeyState state;
  ASSERT_TRUE(state.read(value_, window.definition()));
  EXPECT_EQ(
      state.judge({.limit = &bucket.definition(), .key = "k", .cost = 0}, kOperationsNow).remaining,
      7);
  EXPECT_FALSE(state.judge({.limit = &window.definition(), .key = "k"}, kOperationsNow).allowed);
}

TEST_F(KeyOperations, WhatIsChargedOrGivenBackMeanwhileCounts) {
  const Limit limit("fixed_window 5/1h");
  block(limit, 10 * kSecondNs);
  EXPECT_EQ(ask(limit, Operation::kCharge, 4).remaining, 0);
  ask(limit, Operation::kRefund, 1);
  EXPECT_EQ(value_[0], 2);
  EXPECT_EQ(ask(limit, Operation::kTake, 0, kOperationsNow + 10 * kSecondNs).remaining, 2);
}

TEST_F(KeyOperations, AStateLivesAsLongAsItsBlock) {
  const Limit limit("fixed_window 5/1s");
  ask(limit, Operation::kTake);
  block(limit, kLeaseNs);
  EXPECT_EQ(state_.lifetime_ns(), kLeaseNs);
  ask(limit, Operation::kCharge, 1, kOperationsNow + kSecondNs);
  EXPECT_EQ(state_.lifetime_ns(), kLeaseNs - kSecondNs);
}

// As they were written before there were blocks and permits.
TEST_F(KeyOperations, ValuesWithoutABlockAreWhatTheyWere) {
  const auto hex_of_two_takes = [this](const std::string& expression) {
    const Limit limit(expression);
    value_.clear();
    ask(limit, Operation::kTake, 2);
    ask(limit, Operation::kTake, 1, kOperationsNow + kSecondNs / 10);
    std::string hex;
    for (const char c : value_) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      hex += kDigits[static_cast<unsigned char>(c) >> 4];
      hex += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return hex;
  };
  EXPECT_EQ(hex_of_two_takes("token_bucket 5/1s burst=9"),
            "0119746f6b656e5f6275636b657420352f31732062757273743d39858cb5cfe59fe7cb174478fb64");
  EXPECT_EQ(hex_of_two_takes("fixed_window 5/1s"),
            "011166697865645f77696e646f7720352f31738080a8b1e39fe7cb1703113dfa64");
  EXPECT_EQ(
      hex_of_two_takes("sliding_log 6/1s & sliding_counter 7/1s"),
      "0127736c6964696e675f6c6f6720362f3173202620736c6964696e675f636f756e74657220372f3173028580"
      "a8b1e39fe7cb170280c2d72f018080a8b1e39fe7cb170300a554b439");
}

TEST_F(KeyOperations, PermitsAreLentAndGivenBack) {
  const Limit limit("concurrency 2");
  EXPECT_EQ(lend(limit, Operation::kTake, 7).remaining, 1);
  EXPECT_EQ(lend(limit, Operation::kTake, 8, kOperationsNow + kSecondNs).remaining, 0);
  const Decision denied = lend(limit, Operation::kTake, 9, kOperationsNow + 2 * kSecondNs);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after.count(), kLeaseNs - 2 * kSecondNs);
  EXPECT_TRUE(lend(limit, Operation::kRenew, 7, kOperationsNow + 2 * kSecondNs).allowed);
  EXPECT_EQ(state_.lifetime_ns(), kLeaseNs);
  EXPECT_EQ(lend(limit, Operation::kRelease, 8, kOperationsNow + 2 * kSecondNs).remaining, 1);
  const Decision unknown = lend(limit, Operation::kRelease, 8, kOperationsNow + 2 * kSecondNs);
  EXPECT_FALSE(unknown.allowed);
  EXPECT_EQ(unknown.retry_after, kNever);
  EXPECT_FALSE(state_.changed());
  // Nothing is kept of who has given all back.
  EXPECT_EQ(lend(limit, Operation::kRelease, 7, kOperationsNow + 2 * kSecondNs).remaining, 2);
  EXPECT_EQ(value_, "");
}

TEST_F(KeyOperations, PermitsLapse) {
  const Limit limit("concurrency 1 lease=10s");
  lend(limit, Operation::kTake, 7);
  EXPECT_FALSE(lend(limit, Operation::kTake, 8, kOperationsNow + 10 * kSecondNs - 1).allowed);
  EXPECT_TRUE(lend(limit, Operation::kTake, 8, kOperationsNow + 10 * kSecondNs).allowed);
  EXPECT_FALSE(lend(limit, Operation::kRenew, 7, kOperationsNow + 10 * kSecondNs).allowed);
}

TEST_F(KeyOperations, PermitsOfABlockedKeyCanBeGivenBack) {
  const Limit limit("concurrency 2");
  lend(limit, Operation::kTake, 7);
  block(limit, kSecondNs);
  EXPECT_FALSE(lend(limit, Operation::kTake, 8).allowed);
  EXPECT_TRUE(lend(limit, Operation::kRenew, 7).allowed);
  EXPECT_TRUE(lend(limit, Operation::kRelease, 7).allowed);
  // The block is left.
  EXPECT_FALSE(state_.is_gone());
  EXPECT_EQ(state_.lifetime_ns(), kSecondNs);
  EXPECT_FALSE(lend(limit, Operation::kTake, 8).allowed);
  EXPECT_TRUE(lend(limit, Operation::kTake, 8, kOperationsNow + kSecondNs).allowed);
}

TEST_F(KeyOperations, PermitsStayUnderOtherNumbers) {
  const Limit before("concurrency 3");
  for (const PermitId permit : {1U, 2U, 3U}) lend(before, Operation::kTake, permit);
  const Limit after("concurrency 2 lease=10s");
  EXPECT_FALSE(lend(after, Operation::kTake, 4).allowed);
  EXPECT_TRUE(lend(after, Operation::kRenew, 2).allowed);
  EXPECT_EQ(lend(after, Operation::kTake, 4, kOperationsNow + 10 * kSecondNs).retry_after.count(),
            kLeaseNs - 10 * kSecondNs);
  // What another algorithm has left is fresh to it, and the other way round.
  EXPECT_EQ(ask(Limit("token_bucket 5/1s"), Operation::kTake, 0).remaining, 5);
}

}  // namespace
}  // namespace sluice::memcached

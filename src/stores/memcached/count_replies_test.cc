// One count, with replies that the test makes.

#include <gmock/gmock.h>

#include <utility>

#include "algorithms/limit_definition.h"
#include "sluice/limit.h"
#include "stores/memcached/count.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// A whole minute.
constexpr Instant kCountNow = 1'700'000'040'000'000'000;

class CountTest : public testing::Test, protected CountOwner {
 protected:
  void on_decided(Errand&) override { decided_ = true; }
  void on_failed(Errand&, std::string_view why) override { fault_ = why; }
  void on_made(Lane&, const std::string& counter) override { made_ = counter; }
  void on_counted(Count&) override { ended_ = true; }

  void ask() {
    count_.ask({.errand = errand_,
                .windows = sub_windows_of(limit_.definition()).value(),
                .now = kCountNow,
                .answered_by = answered_by_,
                .expiry_s = 60},
               lane_);
  }
  std::string sent() {
    std::string output;
    exchange_ = lane_.next_exchange();
    if (exchange_ != nullptr) exchange_->write(output);
    return output;
  }

  CountTest() {
    lane_.on_up();
    errand_.requests = {&request_, 1};
    errand_.decision = &decision_;
  }

  const Limit limit_{"fixed_window 5/1m", "login"};
  MemcachedSpace space_{"sluice", limit_.definition()};
  Request request_{.limit = &limit_.definition(), .space = &space_, .key = "k", .cost = 2};
  Decision decision_;
  Errand errand_;
  Instant answered_by_ = kEndOfTime;
  Lane lane_{{.endpoint = {.host = "a", .port = 1}, .deadline = 1h}};
  Count count_{*this};
  Exchange* exchange_ = nullptr;
  bool decided_ = false;
  bool ended_ = false;
  std::string fault_;
  std::string made_;
};

TEST_F(CountTest, AnAdmissionTakesOneTrip) {
  ask();
  EXPECT_EQ(sent(),
            "ma sluice:#f60000000000.28333334:login:k N60 J2 D2 v O0\r\n"
            "mg sluice:#block:login:k v c O1\r\nmn\r\n");
  exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
  EXPECT_TRUE(decided_ && ended_);
  EXPECT_EQ(decision_.remaining, 3);
  EXPECT_EQ(made_, "sluice:#f60000000000.28333334:login:k");
}

TEST_F(CountTest, ADenialIsToldBeforeItIsTakenBack) {
  ask();
  sent();
  exchange_->on_reply("VA 1 O0\r\n6\r\nEN\r\nMN\r\n");
  EXPECT_TRUE(decided_);
  EXPECT_FALSE(decision_.allowed || ended_);
  EXPECT_EQ(decision_.remaining, 1);
  EXPECT_EQ(sent(), "ma sluice:#f60000000000.28333334:login:k MD D2 O0\r\nmn\r\n");
  exchange_->on_reply("HD O0\r\nMN\r\n");
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, UnitsOfOneWhoHasGoneAreTakenBack) {
  ask();
  sent();
  EXPECT_EQ(count_.abandon(errand_), "memcached a:1 did not answer within 1h");
  exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" MD D2 "));
  EXPECT_FALSE(decided_);
}

TEST_F(CountTest, UnitsThatOneWhoHasGoneHasChargedStay) {
  request_.operation = Operation::kCharge;
  ask();
  sent();
  count_.abandon(errand_);
  exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
  EXPECT_EQ(sent(), "");
  EXPECT_TRUE(ended_);
  EXPECT_FALSE(decided_);
}

// Since it was asked, others may have begun sub-windows that it has not read.
TEST_F(CountTest, UnitsOfALateReplyAreTakenBackUnanswered) {
  answered_by_ = kCountNow;
  ask();
  sent();
  exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
  EXPECT_EQ(fault_, "memcached a:1 answered two sub-windows late: others may have begun since");
  EXPECT_FALSE(decided_);
  ASSERT_THAT(sent(), HasSubstr(" MD D2 "));
  exchange_->on_reply("HD O0\r\nMN\r\n");
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, UnitsThatAreChargedLateStay) {
  request_.operation = Operation::kCharge;
  answered_by_ = kCountNow;
  ask();
  sent();
  exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
  EXPECT_THAT(fault_, HasSubstr("late"));
  EXPECT_EQ(sent(), "");
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, WhatIsLookedAtLateIsNotJudged) {
  request_.duration_ns = 5;
  answered_by_ = kCountNow;
  for (const Operation operation : {Operation::kTake, Operation::kRefund, Operation::kBlock}) {
    request_.operation = operation;
    request_.cost = operation == Operation::kTake ? 0 : 2;
    ask();
    sent();
    exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
    EXPECT_THAT(std::exchange(fault_, {}), HasSubstr("late"));
    EXPECT_EQ(sent(), "");
    EXPECT_TRUE(std::exchange(ended_, false));
  }
  EXPECT_FALSE(decided_);
}

// Whatever was asked: it is only looked at, in as many replies as nobody waits for.
TEST_F(CountTest, ForOneWhoGoesBeforeItIsSentNothingIsDone) {
  request_.duration_ns = 5;
  for (const Operation operation : {Operation::kTake, Operation::kTakeUpTo, Operation::kCharge,
                                    Operation::kReset, Operation::kBlock, Operation::kRefund}) {
    request_.operation = operation;
    ask();
    if (operation == Operation::kBlock || operation == Operation::kRefund) {
      sent();
      exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
    }
    EXPECT_FALSE(std::exchange(ended_, false));
    count_.abandon(errand_);
    EXPECT_EQ(sent(),
              "mg sluice:#f60000000000.28333334:login:k v c O0\r\n"
              "mg sluice:#block:login:k v c O1\r\nmn\r\n");
    exchange_->on_reply("VA 1 O0\r\n2\r\nEN\r\nMN\r\n");
    EXPECT_TRUE(std::exchange(ended_, false));
    EXPECT_EQ(sent(), "");
  }
  EXPECT_FALSE(decided_);
}

TEST_F(CountTest, OfUnitsTakenUpToTheRestIsTakenBack) {
  request_.operation = Operation::kTakeUpTo;
  request_.cost = 100;
  ask();
  EXPECT_THAT(sent(), HasSubstr(" J5 D5 "));
  exchange_->on_reply("VA 1 O0\r\n8\r\nEN\r\nMN\r\n");
  EXPECT_EQ(decision_.taken, 2);
  EXPECT_THAT(sent(), HasSubstr(" MD D3 "));
}

TEST_F(CountTest, ABlockThatLosesARaceLooksAgain) {
  request_.operation = Operation::kBlock;
  request_.duration_ns = 5;
  ask();
  const std::string looks = sent();
  EXPECT_THAT(looks, HasSubstr("mg sluice:#block:login:k v c O1\r\n"));
  exchange_->on_reply("EN\r\nEN\r\nMN\r\n");
  const std::string until = std::to_string(kCountNow + 5);
  const std::string size = std::to_string(until.size());
  EXPECT_EQ(sent(), "ms sluice:#block:login:k " + size + " T60 ME c O0\r\n" + until + "\r\nmn\r\n");
  exchange_->on_reply("NS O0\r\nMN\r\n");
  EXPECT_EQ(sent(), looks);
  exchange_->on_reply("EN\r\nVA " + size + " c7\r\n" + std::to_string(kCountNow + 4) +
                      "\r\nMN\r\n");
  EXPECT_THAT(sent(), HasSubstr(" C7 "));
  exchange_->on_lost(Loss::kUnsent, "it has gone");
  EXPECT_EQ(sent(), looks);
  EXPECT_FALSE(decided_);
  exchange_->on_reply("EN\r\nVA " + size + " c9\r\n" + std::to_string(kCountNow + 6) +
                      "\r\nMN\r\n");
  EXPECT_TRUE(decided_ && ended_);
  EXPECT_EQ(made_, "");
}

TEST_F(CountTest, ABlockWithoutAReplyIsNotRepeated) {
  request_.operation = Operation::kBlock;
  request_.duration_ns = 5;
  ask();
  sent();
  exchange_->on_reply("EN\r\nEN\r\nMN\r\n");
  sent();
  exchange_->on_lost(Loss::kUnknown, "it has gone");
  EXPECT_EQ(fault_, "it has gone");
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, ABlockOverAValueWithoutATokenFails) {
  request_.operation = Operation::kBlock;
  request_.duration_ns = 5;
  ask();
  sent();
  exchange_->on_reply("EN\r\nVA 1 c0 O1\r\n7\r\nMN\r\n");
  EXPECT_THAT(fault_, HasSubstr("memcached a:1 keeps no cas tokens (-C)"));
  EXPECT_TRUE(ended_);
}

TEST_F(CountTest, AnAdditionWithoutAReplyIsNotRepeated) {
  ask();
  sent();
  exchange_->on_lost(Loss::kUnknown, "it has gone");
  EXPECT_EQ(fault_, "it has gone");
  EXPECT_TRUE(ended_);
  EXPECT_EQ(sent(), "");
}

TEST_F(CountTest, AnAdditionThatNeverLeftIsSentAgain) {
  ask();
  sent();
  exchange_->on_lost(Loss::kUnsent, "it has gone");
  EXPECT_FALSE(ended_);
  EXPECT_THAT(sent(), HasSubstr(" J2 D2 "));
}

}  // namespace
}  // namespace sluice::memcached

// A connection is lost, or a sweep goes on, and the system has no memory: no key is stuck.

#include <gtest/gtest.h>

#include <deque>
#include <string>
#include <utility>

#include "net/refused_memory_test.h"
#include "stores/memcached/carrier_under_test.h"

namespace sluice::memcached {
namespace {

constexpr std::string_view kGone = "memcached a:1 has closed the connection";

class LossWithoutMemory : public MemcachedCarrierTest {
 protected:
  // What was sent is lost, while nothing can be allocated.
  void lose_without_memory(Loss loss) {
    there([&] {
      Exchange* const exchange = std::exchange(exchange_, nullptr);
      refused_bytes = 1;
      EXPECT_NO_THROW(exchange->on_lost(loss, kGone));
      refused_bytes = kNoneRefused;
    });
  }
};

// Whatever their number.
TEST_F(LossWithoutMemory, WhoHasOnlyReadReadsAgain) {
  constexpr int kKeys = 200;
  std::deque<std::string> keys;
  std::string misses;
  for (int i = 0; i < kKeys; ++i) {
    ask(keys.emplace_back("k" + std::to_string(i)));
    misses += "EN O" + std::to_string(i) + "\r\n";
  }
  const std::string reads = sent();
  lose_without_memory(Loss::kUnknown);
  EXPECT_EQ(sent(), reads);
  answer(misses + "MN\r\n");
  sent();
  lose_without_memory(Loss::kUnsent);  // What was to be written was not.
  EXPECT_EQ(sent(), reads);
  there([&] { EXPECT_EQ(carrier_.under_way(), std::size_t{kKeys}); });
}

TEST_F(LossWithoutMemory, WhoMayHaveWrittenIsTold) {
  const Ask& asked = ask("k");
  sent();
  answer("EN\r\nMN\r\n");
  sent();
  lose_without_memory(Loss::kUnknown);
  there([&] { EXPECT_EQ(carrier_.under_way(), 0U); });
  ASSERT_TRUE(asked.inquiry.is_answered);
  EXPECT_EQ(asked.inquiry.fault, "out of memory");
}

// Nor is one that rests before its next round, whose caller goes meanwhile.
TEST_F(LossWithoutMemory, WhoHasLostTooManyRacesRests) {
  Errand& errand = carry_own();
  std::string_view why;
  for (unsigned lost = 1; lost <= MemcachedCarrier::kLossesBeforeRest; ++lost) {
    EXPECT_EQ(sent(), kRead);
    answer(value(1, lost));
    sent();
    there([&] {
      Exchange* const exchange = std::exchange(exchange_, nullptr);
      refused_bytes = 1;
      exchange->on_reply("EX O0\r\nMN\r\n");
      if (lost == MemcachedCarrier::kLossesBeforeRest) {
        EXPECT_EQ(lane().next_exchange(), nullptr);
        EXPECT_NO_THROW(why = carrier_.abandon(errand));
      }
      refused_bytes = kNoneRefused;
    });
  }
  EXPECT_EQ(why, lane().late());
  EXPECT_EQ(reconnects_, 0);
  std::size_t left = 1;
  while (left > 0) there([&] { left = carrier_.under_way(); });
}

class AskingWithoutMemory : public MemcachedCarrierTest {
 protected:
  void expect_told_at_once(std::size_t under_way = 0) {
    there([] { refused_bytes = 1; });
    const Ask& asked = ask(long_key_);
    there([] { refused_bytes = kNoneRefused; });
    ASSERT_TRUE(asked.inquiry.is_answered);
    EXPECT_EQ(asked.inquiry.fault, "out of memory");
    there([&] { EXPECT_EQ(carrier_.under_way(), under_way); });
  }

  const std::string long_key_ = std::string(200, 'k');  // Needs room of its own.
};

TEST_F(AskingWithoutMemory, WhoCannotBeCarriedIsTold) {
  expect_told_at_once();
  write_first("k", 1, 7);
  expect_told_at_once();
  EXPECT_TRUE(is_quiet());
}

// What was used to count a key with a short name has no room for a long one.
TEST_F(AskingWithoutMemory, WhoCannotBeCountedIsTold) {
  options_.exact = false;
  expect_told_at_once();
  const Ask& first = ask("k");
  ask(long_key_);
  sent();
  answer("VA 1 O0\r\n1\r\nEN O1\r\nVA 1 O2\r\n1\r\nEN O3\r\nMN\r\n");
  EXPECT_TRUE(first.decision.allowed);
  const Ask& last = ask(long_key_);
  expect_told_at_once(1);
  sent();
  answer("VA 1 O0\r\n2\r\nEN O1\r\nMN\r\n");
  EXPECT_TRUE(last.decision.allowed);
  there([&] { EXPECT_EQ(carrier_.under_way(), 0U); });
}

class SweepWithoutMemory : public MemcachedCarrierTest {
 protected:
  SweepWithoutMemory() { options_.virtual_time = true; }

  // So many replies, to what was sent.
  static std::string all(std::string_view code, int count) {
    std::string replies;
    for (int i = 0; i < count; ++i) {
      replies += std::string(code) + " O" + std::to_string(i) + "\r\n";
    }
    return replies + "MN\r\n";
  }
};

// One key more than are removed at a time, with a longer name than any: its turn comes as another
// ends, whose room is too small.
TEST_F(SweepWithoutMemory, LeavesTheKeyForWhichThereIsNone) {
  std::deque<std::string> keys;
  for (const int count : {256, 256, 1}) {
    for (int i = 0; i < count; ++i) {
      ask(keys.emplace_back(count == 1 ? std::string(100, 'k') : std::to_string(keys.size())));
    }
    sent();
    answer(all("EN", count));
    sent();
    answer(all("HD", count));
  }
  // The turn that had room for it is not the next any more.
  ask("one", 0);
  ask("other", 0);
  sent();
  answer(all("EN", 2));
  bool swept = false;
  there([&] { carrier_.sweep([&] { swept = true; }); });
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(swept);
    sent();
    const std::string replies = all("HD", 256);
    there([&] {
      Exchange* const exchange = std::exchange(exchange_, nullptr);
      refused_bytes = 1;
      exchange->on_reply(replies);
      refused_bytes = kNoneRefused;
    });
  }
  EXPECT_TRUE(swept);
  EXPECT_EQ(reconnects_, 0);
}

}  // namespace
}  // namespace sluice::memcached

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <stdexcept>
#include <thread>
#include <vector>

#include "limiters.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;
using testing::HasSubstr;

TEST(Operations, ManyKeysAreCheckedAtOnce) {
  Limiter limiter = make_limiter();
  const std::vector<Ask> asks{{.key = "a", .cost = 3},
                              {.key = "b"},
                              {.key = "a", .cost = 3},
                              {.key = "a", .cost = 2},
                              {.key = "b", .cost = 0}};
  std::vector<Decision> decisions(asks.size());
  limiter.check(asks, decisions);
  EXPECT_EQ(decisions[0].remaining, 2);
  EXPECT_EQ(decisions[1].remaining, 4);
  EXPECT_FALSE(decisions[2].allowed);
  EXPECT_EQ(decisions[3].remaining, 0);
  EXPECT_EQ(decisions[4].remaining, 4);
  limiter.check(std::span<const Ask>(), decisions);
}

TEST(Operations, AWrongBatchIsRefusedAsAWhole) {
  Limiter limiter = make_limiter();
  const std::vector<Ask> asks{{.key = "a"}, {.key = "b", .cost = -2}};
  std::vector<Decision> decisions(2);
  EXPECT_EQ(error_of<std::invalid_argument>([&] { limiter.check(asks, decisions); }),
            "a cost is at least 0, not -2");
  EXPECT_EQ(limiter.peek("a").remaining, 5);
  EXPECT_EQ(
      error_of<std::invalid_argument>([&] { limiter.check(asks, std::span(decisions).first(1)); }),
      "there is room for 1 decisions, and there are 2 to make");
}

TEST(Operations, RefundsNeverBeyondFresh) {
  Limiter limiter = make_limiter();
  limiter.check("a", 4);
  const Decision refunded = limiter.refund("a", 3);
  EXPECT_TRUE(refunded.allowed);
  EXPECT_EQ(refunded.remaining, 4);
  EXPECT_EQ(limiter.refund("a", 100).remaining, 5);
  EXPECT_EQ(limiter.refund("never seen", 1).reset_after, 0ns);
  EXPECT_EQ(limiter.refund("a", 0).remaining, 5);
}

TEST(Operations, ChargesBeyondTheLimit) {
  Limiter limiter = make_limiter(kBucket);
  EXPECT_EQ(limiter.charge("a", 4).remaining, 6);
  const Decision debt = limiter.charge("a", 16);
  EXPECT_TRUE(debt.allowed);
  EXPECT_EQ(debt.remaining, 0);
  EXPECT_GT(debt.reset_after, kWeek + kWeek / 2);
  // 20 units are used; 11 of them must return first.
  EXPECT_GT(limiter.check("a").retry_after, kWeek);
  EXPECT_EQ(limiter.charge("a", 0).remaining, 0);
  EXPECT_EQ(limiter.charge("a", std::numeric_limits<std::int64_t>::max()).remaining, 0);
}

TEST(Operations, TakesWhatRemains) {
  for (const char* limit :
       {kFivePerWeek, "fixed_window 5/1w anchor=first", "token_bucket 5/1w borrow=yes",
        "fixed_window 9/1w & sliding_log 5/1w", "sliding_window 5/1w", "sliding_counter 5/1w"}) {
    SCOPED_TRACE(limit);
    Limiter limiter = make_limiter(limit);
    EXPECT_EQ(limiter.take_up_to("a", 3).taken, 3);
    const Decision rest = limiter.take_up_to("a", 3);
    EXPECT_TRUE(rest.allowed);
    EXPECT_EQ(rest.taken, 2);
    EXPECT_EQ(rest.remaining, 0);
    const Decision none = limiter.take_up_to("a", 3);
    EXPECT_FALSE(none.allowed);
    EXPECT_EQ(none.taken, 0);
    EXPECT_GT(none.retry_after, 0ns);
  }
}

TEST(Operations, BlocksAKey) {
  Limiter limiter = make_limiter();
  limiter.check("a", 2);
  const Decision blocked = limiter.block("a", 2 * kWeek);
  EXPECT_TRUE(blocked.allowed);
  EXPECT_EQ(blocked.remaining, 0);
  EXPECT_FALSE(limiter.check("a").allowed);
  EXPECT_GT(limiter.check("a").retry_after, kWeek);
  EXPECT_TRUE(limiter.peek("a").allowed);
  EXPECT_FALSE(limiter.take_up_to("a", 1).allowed);
  EXPECT_TRUE(limiter.check("b").allowed);
  limiter.block("a", 1ns);
  EXPECT_GT(limiter.check("a").retry_after, kWeek) << "the later end counts";
  limiter.reset("a");
  EXPECT_EQ(limiter.peek("a").remaining, 5);
}

TEST(Operations, ABlockEndsWhenItWasSaid) {
  Limiter limiter = make_limiter();
  limiter.check("a", 2);
  limiter.block("a", 1ns);
  EXPECT_EQ(limiter.peek("a").remaining, 3) << "its state has stayed as it was";
}

TEST(Operations, RefuseNumbersOutOfRange) {
  Limiter limiter = make_limiter();
  const auto refused = [](auto call) { return error_of<std::invalid_argument>(call); };
  EXPECT_EQ(refused([&] { limiter.refund("a", -1); }), "a refund is at least 0, not -1");
  EXPECT_EQ(refused([&] { limiter.charge("a", -1); }), "a charge is at least 0, not -1");
  EXPECT_EQ(refused([&] { limiter.take_up_to("a", -7); }), "what is taken is at least 0, not -7");
  EXPECT_EQ(refused([&] { limiter.reserve("a", -1); }), "a cost is at least 0, not -1");
  EXPECT_EQ(refused([&] { limiter.reserve("a", 1, -1ns); }), "a patience is at least 0 ns, not -1");
  EXPECT_EQ(refused([&] { limiter.block("a", 0ns); }),
            "a block lasts from 1 to 2305843009213693952 ns, not 0");
  EXPECT_EQ(refused([&] { limiter.block("a", nanoseconds::max()); }),
            "a block lasts from 1 to 2305843009213693952 ns, not 9223372036854775807");
  EXPECT_EQ(limiter.peek("a").reset_after, 0ns);
}

TEST(Operations, ALimitOfPermitsIsAnotherLimiters) {
  EXPECT_THAT(error_of<InvalidLimit>([] { make_limiter("concurrency 4"); }),
              HasSubstr("'concurrency 4' lends permits"));
}

TEST(Operations, ChecksAllOrNone) {
  const auto store = open_store("memory:");
  Limiter number(store, Limit("sliding_log 3/1w", "number"));
  Limiter address(store, Limit("sliding_log 9/1w", "address"));
  Limiter everyone(store, Limit(kBucket, "everyone"));
  const Decision first = check_all({{number, "+1"}, {address, "1.2.3.4", 2}, {everyone, "", 3}});
  EXPECT_TRUE(first.allowed);
  EXPECT_EQ(first.limit, 3);
  EXPECT_EQ(first.remaining, 2);
  const Decision denied = check_all({{number, "+1"}, {address, "1.2.3.4", 8}, {everyone, ""}});
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(number.peek("+1").remaining, 2);
  EXPECT_EQ(address.peek("1.2.3.4").remaining, 7);
  EXPECT_EQ(everyone.peek("").remaining, 7);
  EXPECT_TRUE(check_all({{number, "+1"}, {number, "+2"}}).allowed);
  EXPECT_EQ(number.peek("+2").remaining, 2);
}

TEST(Operations, TellWhichClaimBindsAndWhatEachAnswers) {
  const auto store = open_store("memory:");
  Limiter number(store, Limit("token_bucket 3/1h", "number"));
  Limiter everyone(store, Limit("sliding_log 5/1w", "everyone"));
  std::vector<Decision> parts(3);
  const Decision first = check_all({{everyone, ""}, {number, "+1"}}, parts);
  EXPECT_EQ(first.binding, 1);
  EXPECT_EQ(first.limit, 3);
  EXPECT_LE(first.reset_after, 20min) << "not the week of the other";
  EXPECT_EQ(parts[0].remaining, 4);
  EXPECT_EQ(parts[0].reset_after, kWeek);
  EXPECT_EQ(parts[1].remaining, 2);
  EXPECT_EQ(parts[1].reset_after, first.reset_after);

  const Decision denied = check_all({{number, "+1", 2}, {everyone, "", 5}}, parts);
  EXPECT_FALSE(denied);
  EXPECT_EQ(denied.binding, 1);
  EXPECT_EQ(denied.limit, 5);
  EXPECT_EQ(denied.remaining, 4);
  EXPECT_TRUE(parts[0].allowed) << "it alone would have admitted";
  EXPECT_EQ(parts[0].remaining, 2) << "and has not been charged";
  EXPECT_EQ(parts[1].retry_after, denied.retry_after);

  EXPECT_EQ(check_all({{number, "+2"}}, std::span(parts).first(1)), parts[0]);
  EXPECT_EQ(error_of<std::invalid_argument>([&] {
              check_all({{number, "+2"}, {everyone, ""}}, std::span(parts).first(1));
            }),
            "there is room for 1 decisions, and there are 2 to make");
  EXPECT_EQ(number.peek("+2").remaining, 2);
}

TEST(Operations, TellWhatEachPartOfALimitAnswers) {
  Limiter limiter = make_limiter("sliding_log 9/1w & token_bucket 2/1h & sliding_log 7/1h");
  std::vector<Decision> parts(3);
  const Decision admitted = limiter.check_parts("a", 2, parts);
  EXPECT_TRUE(admitted);
  EXPECT_EQ(admitted.binding, 1);
  EXPECT_EQ(admitted.limit, 2);
  EXPECT_EQ(parts[0].remaining, 7);
  EXPECT_EQ(parts[1].remaining, 0);
  EXPECT_EQ(parts[2].remaining, 5);
  const Decision denied = limiter.check_parts("a", 6, parts);
  EXPECT_EQ(denied.binding, 1) << "it never admits as many";
  EXPECT_EQ(denied.retry_after, kNever);
  EXPECT_TRUE(parts[0].allowed);
  EXPECT_EQ(parts[0].remaining, 7);
  EXPECT_EQ(parts[1].retry_after, kNever);
  EXPECT_GT(parts[2].retry_after, 59min);
  limiter.block("a", 2h);
  EXPECT_EQ(limiter.check_parts("a", 1, parts).binding, 0) << "the first of equal ones";
  for (const Decision& part : parts) EXPECT_GT(part.retry_after, 119min);

  EXPECT_EQ(error_of<std::invalid_argument>(
                [&] { limiter.check_parts("a", 1, std::span(parts).first(2)); }),
            "there is room for 2 decisions, and there are 3 to make");
  Limiter plain = make_limiter();
  EXPECT_EQ(plain.check_parts("a", 2, parts), parts[0]);
  EXPECT_EQ(parts[0].remaining, 3);
}

TEST(Operations, RefuseClaimsThatCannotBeDecidedTogether) {
  const auto store = open_store("memory:");
  Limiter limiter(store, Limit(kFivePerWeek, "one"));
  Limiter other = make_limiter(kFivePerWeek, "other");
  const auto refused = [](auto call) { return error_of<std::invalid_argument>(call); };
  EXPECT_EQ(refused([] { check_all({}); }), "from 1 to 16 claims are taken from together, not 0");
  const std::vector<Claim> many(17, Claim{limiter, "a"});
  EXPECT_EQ(refused([&] { check_all(many); }),
            "from 1 to 16 claims are taken from together, not 17");
  EXPECT_THAT(refused([&] {
                check_all({{limiter, "a"}, {other, "a"}});
              }),
              HasSubstr("'one' and 'other' are in different stores"));
  EXPECT_THAT(refused([&] {
                check_all({{limiter, "a"}, {limiter, "a"}});
              }),
              HasSubstr("named twice"));
  EXPECT_EQ(refused([&] {
              check_all({{limiter, "a"}, {limiter, "b", -1}});
            }),
            "a cost is at least 0, not -1");
  EXPECT_EQ(limiter.peek("a").remaining, 5);
}

TEST(Operations, TellALimitThatChanges) {
  Limiter limiter = make_limiter(kFivePerWeek, "login");
  const Limit& former = limiter.limit();
  limiter.check("a", 4);
  limiter.set_limit(Limit("sliding_log 9/1w", "login"));
  EXPECT_EQ(limiter.peek("a").remaining, 5) << "the key keeps its state";
  EXPECT_EQ(limiter.limit().expression(), "sliding_log 9/1w");
  EXPECT_EQ(former.expression(), kFivePerWeek) << "and the former limit stays valid";
  limiter.set_limit(Limit("sliding_log 2/1w", "login"));
  EXPECT_FALSE(limiter.check("a").allowed);
  limiter.set_limit(Limit(kFivePerWeek, "login"));
  EXPECT_EQ(limiter.peek("a").remaining, 1);
  EXPECT_EQ(&limiter.limit(), &former);
}

TEST(Operations, KeysStartFreshIfTheirStateCannotBeRead) {
  Limiter limiter = make_limiter(kFivePerWeek, "login");
  for (const char* other : {"sliding_log 5/2w", kBucket, kFivePerWeek, "fixed_window 5/1w",
                            "fixed_window 5/1d", "fixed_window 5/1d & token_bucket 7/1w"}) {
    SCOPED_TRACE(other);
    limiter.check("a", 3);
    limiter.set_limit(Limit(other, "login"));
    EXPECT_EQ(limiter.peek("a").reset_after, 0ns);
  }
  limiter.check("a", 3);
  limiter.set_limit(Limit("fixed_window 9/1d & token_bucket 7/1w", "login"));
  EXPECT_EQ(limiter.peek("a").remaining, 4);
}

TEST(Operations, ALimitDoesNotGiveWayWhereItCannot) {
  const auto store = open_store("memory:");
  Limiter limiter(store, Limit(kFivePerWeek, "login"));
  EXPECT_EQ(
      error_of<std::invalid_argument>([&] { limiter.set_limit(Limit(kFivePerWeek, "logout")); }),
      "the limit 'logout' cannot replace 'login': their names differ");
  EXPECT_THROW(limiter.set_limit(Limit("concurrency 4", "login")), InvalidLimit);
  Limiter second(store, Limit("sliding_log 6/1w", "login"));
  EXPECT_THROW(limiter.set_limit(Limit("sliding_log 5/2w", "login")), StoreError)
      << "others ask about its keys";
  limiter.check("a", 4);
  EXPECT_EQ(second.peek("a").remaining, 2);
  limiter.set_limit(Limit("sliding_log 8/1w", "login"));
  EXPECT_EQ(second.limit().expression(), "sliding_log 6/1w");
  EXPECT_EQ(limiter.peek("a").remaining, 4);
}

TEST(Operations, ALimitChangesWhileOthersAsk) {
  Limiter limiter = make_limiter("fixed_window 1000000/1w", "login");
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&limiter] {
      for (int i = 0; i < 2'000; ++i) {
        EXPECT_TRUE(limiter.check("a").allowed);
        EXPECT_FALSE(limiter.limit().expression().empty());
      }
    });
  }
  for (int i = 0; i < 50; ++i) {
    limiter.set_limit(
        Limit(i % 2 == 0 ? "sliding_counter 1000000/1w" : "fixed_window 1000000/1w", "login"));
  }
  for (auto& thread : threads) thread.join();
}

TEST(Operations, ACallbackIsToldBeforeTheCallReturns) {
  Limiter limiter = make_limiter();
  int told = 0;
  limiter.async_check("a", 2, [&](const Decision& decision, std::exception_ptr error) {
    EXPECT_EQ(decision.remaining, 3);
    EXPECT_EQ(error, nullptr);
    ++told;
  });
  EXPECT_EQ(told, 1);
  limiter.async_check("a", -2, [&](const Decision&, std::exception_ptr error) {
    EXPECT_EQ(error_of<std::invalid_argument>([&] { std::rethrow_exception(error); }),
              "a cost is at least 0, not -2");
    ++told;
  });
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace sluice

// Taking from several limits in one step: now, later, or as soon as all admit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include "sluice/limiter.h"
#include "testing/acquire_fixture.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;

/// A crawler: one limit for each host and one for all hosts together, whose units return after
/// hours.
class ClaimsTest : public AcquireFixture {
 protected:
  /// Another caller, which waits at this limit when this returns.
  std::future<Decision> wait_at(const Limiter& limiter, const std::string& host,
                                std::stop_token stop) {
    const std::size_t others = waiting_callers(*store_, limiter.limit());
    auto caller = std::async(std::launch::async, [this, host, stop] {
      return acquire_all({{host_, host}, {total_, ""}}, kForever, stop);
    });
    await_waiting(limiter, others + 1);
    return caller;
  }
  std::future<Decision> wait_at(const Limiter& limiter, const std::string& host) {
    return wait_at(limiter, host, stop_.get_token());
  }

  /// After ten seconds it is stopped.
  Decision answer_to(std::future<Decision>& caller) {
    if (caller.wait_for(10s) != std::future_status::ready) stop_.request_stop();
    return caller.get();
  }

  /// As another process would: callers of this one are not told.
  void refund_elsewhere(Limiter& limiter, std::int64_t units) {
    const LimitDefinition& limit = limiter.limit().definition();
    const auto space = store_->open_space(limit);
    store_->decide_one({.limit = &limit,
                        .space = space.get(),
                        .key = "",
                        .operation = Operation::kRefund,
                        .cost = units});
  }

  std::stop_source stop_;
  Limiter host_{store_, Limit("fixed_window 1/3h anchor=first", "host")};
  Limiter total_{store_, Limit("fixed_window 2/2h anchor=first", "total")};
};

TEST_F(ClaimsTest, AcquiresAtOnceWhatAllHave) {
  const Decision decision = acquire_all({{host_, "a"}, {total_, ""}});
  EXPECT_TRUE(decision.allowed);
  EXPECT_EQ(decision.binding, 0);
  EXPECT_EQ(host_.peek("a").remaining, 0);
  EXPECT_EQ(total_.peek("").remaining, 1);
  EXPECT_TRUE(acquire_all({{total_, ""}}).allowed) << "a list of one";
}

TEST_F(ClaimsTest, DeniesAtOnceWhatWouldTakeTooLong) {
  host_.check("a");
  const Decision denied = acquire_all({{host_, "a"}, {total_, ""}}, 1h);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.ended, Ended::kAnswered);
  EXPECT_GT(denied.retry_after, 170min);
  EXPECT_EQ(acquire_all({{total_, "", 3}, {host_, "b"}}).retry_after, kNever);
  EXPECT_EQ(total_.peek("").remaining, 2) << "nothing is taken";
}

TEST_F(ClaimsTest, WaitsForTheClaimThatDeniesAndThenForAnother) {
  host_.check("a");
  auto first = wait_at(host_, "a");
  EXPECT_EQ(waiting_callers(*store_, total_.limit()), 0U);
  total_.check("", 2);
  host_.refund("a", 1);
  await_waiting(total_, 1);
  EXPECT_EQ(waiting_callers(*store_, host_.limit()), 0U);
  EXPECT_EQ(host_.peek("a").remaining, 1) << "nothing is taken meanwhile";
  total_.refund("", 2);
  EXPECT_TRUE(first.get().allowed);
  EXPECT_EQ(host_.peek("a").remaining, 0);
}

TEST_F(ClaimsTest, AreServedInOrder) {
  total_.check("", 2);
  auto first = wait_at(total_, "a");
  auto second = wait_at(total_, "b");
  total_.refund("", 1);
  EXPECT_TRUE(first.get().allowed);
  await_waiting(total_, 1);
  EXPECT_EQ(host_.peek("b").remaining, 1);
  auto third = wait_at(total_, "c");
  total_.refund("", 1);
  EXPECT_TRUE(second.get().allowed);
  total_.refund("", 1);
  EXPECT_TRUE(third.get().allowed);
}

TEST_F(ClaimsTest, ALateGrantIsReturnedAndWakesTheWaitersOfEachClaim) {
  total_.check("", 2);
  std::stop_source stop;
  auto stopped = wait_at(total_, "a", stop.get_token());
  store_->answers = ScriptedStore::Answers::kWhenTold;
  total_.refund("", 1);
  ASSERT_TRUE(store_->await_pending(1));
  store_->answers = ScriptedStore::Answers::kAtOnce;
  std::future<Decision> other;
  std::stop_source stop_other;
  store_->on_the_way = [&] {
    stop.request_stop();
    EXPECT_EQ(stopped.get().ended, Ended::kStopped);
    other = std::async(std::launch::async,
                       [&] { return host_.acquire("a", 1, kForever, stop_other.get_token()); });
    await_waiting(host_, 1);
  };
  store_->answer();
  if (other.wait_for(10s) != std::future_status::ready) stop_other.request_stop();
  EXPECT_TRUE(other.get().allowed) << "it waits for the host only";
  EXPECT_EQ(total_.peek("").remaining, 1);
}

TEST_F(ClaimsTest, EachIsToldWhichOfItsOwnClaimsDenies) {
  total_.check("", 2);
  std::stop_source stop;
  auto second_of_two = wait_at(total_, "a", stop.get_token());
  auto first_of_two = std::async(std::launch::async, [&] {
    return acquire_all({{total_, ""}, {host_, "b"}}, kForever, stop.get_token());
  });
  await_waiting(total_, 2);
  auto alone = std::async(std::launch::async,
                          [&] { return total_.acquire("", 1, kForever, stop.get_token()); });
  await_waiting(total_, 3);
  stop.request_stop();
  EXPECT_EQ(second_of_two.get().binding, 1);
  EXPECT_EQ(first_of_two.get().binding, 0);
  EXPECT_EQ(alone.get().binding, 0);
}

TEST_F(ClaimsTest, ABlockDeniesAllThatWaitForItsKey) {
  total_.check("", 2);
  auto both = wait_at(total_, "a");
  auto alone = std::async(std::launch::async, [&] { return total_.acquire(""); });
  await_waiting(total_, 2);
  total_.block("", 9h);
  const Decision of_both = both.get();
  const Decision of_total = alone.get();
  EXPECT_EQ(of_both.binding, 1);
  EXPECT_EQ(of_total.binding, 0);
  for (const Decision& denied : {of_both, of_total}) {
    EXPECT_EQ(denied.ended, Ended::kAnswered);
    EXPECT_EQ(denied.limit, 2);
    EXPECT_GT(denied.retry_after, 8h);
  }
}

// They wait in the queue of the total, and are told of their host, whether they are first or not.
TEST_F(ClaimsTest, ABlockOfAnotherClaimDeniesThoseThatWait) {
  total_.check("", 2);
  auto first = wait_at(total_, "a");
  auto second = wait_at(total_, "a");
  auto other = wait_at(total_, "b");
  host_.block("a", 9h);
  for (std::future<Decision>* blocked : {&first, &second}) {
    const Decision denied = answer_to(*blocked);
    EXPECT_EQ(denied.ended, Ended::kAnswered);
    EXPECT_EQ(denied.binding, 0);
    EXPECT_EQ(denied.limit, 1);
    EXPECT_GT(denied.retry_after, 8h);
  }
  host_.block("b", 1h);
  const Decision denied = answer_to(other);
  EXPECT_EQ(denied.ended, Ended::kAnswered);
  EXPECT_EQ(denied.binding, 1) << "the total denies for longer";
  EXPECT_GT(denied.retry_after, 110min);
  EXPECT_EQ(waiting_callers(*store_, host_.limit()), 0U);
}

TEST_F(ClaimsTest, AnEventOfAnotherClaimLetsThoseThatWaitAskAgain) {
  const std::function<void()> events[] = {
      [&] { host_.reset("a"); },
      [&] { host_.set_limit(Limit("fixed_window 2/3h anchor=first", "host")); }};
  for (const auto& happens : events) {
    total_.charge("", 2);
    auto both = wait_at(total_, "a");
    refund_elsewhere(total_, 2);
    happens();
    ASSERT_TRUE(answer_to(both).allowed);
    total_.reset("");
    host_.reset("a");
  }
}

TEST_F(ClaimsTest, ABlockDeniesNoneThatWantNothingOfItsKey) {
  Limiter bucket(store_, Limit("token_bucket 1/1h", "bucket"));
  bucket.check("");
  total_.check("", 2);
  const auto wait_for = [&](Limiter& limiter) {
    return std::async(std::launch::async, [&] {
      return acquire_all({{host_, "a", 0}, {limiter, ""}}, kForever, stop_.get_token());
    });
  };
  auto in_queue = wait_for(total_);
  await_waiting(total_, 1);
  auto reserved = wait_for(bucket);
  const auto space = store_->open_space(bucket.limit().definition());
  while (space->attachment<WaitQueues>()->callers().size() != 1) std::this_thread::yield();
  host_.block("a", 9h);
  pass_timer_thread();
  stop_.request_stop();
  EXPECT_EQ(in_queue.get().ended, Ended::kStopped);
  EXPECT_EQ(reserved.get().ended, Ended::kStopped);
}

TEST_F(ClaimsTest, AnEventBeforeTheWaitBeginsIsNotMissed) {
  Limiter bucket(store_, Limit("token_bucket 1/1h", "bucket"));
  bucket.check("");
  store_->on_the_way = [&] { total_.block("", 9h); };
  const Decision denied = without_waiting([&](std::stop_token stop) {
    return acquire_all({{bucket, ""}, {total_, ""}}, kForever, std::move(stop));
  });
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.ended, Ended::kAnswered);
  EXPECT_EQ(denied.binding, 1);
  EXPECT_GT(denied.retry_after, 8h);
}

TEST_F(ClaimsTest, ReserveAllOrNone) {
  Limiter bucket(store_, Limit("token_bucket 1/1h", "bucket"));
  bucket.check("");
  auto reserved = reserve_all({{total_, "", 2}, {bucket, ""}});
  ASSERT_EQ(reserved.size(), 2U);
  for (const Reservation& one : reserved) {
    EXPECT_TRUE(one);
    EXPECT_GT(one.delay(), 59min) << "of all";
  }
  EXPECT_FALSE(reserve_all({{bucket, ""}, {total_, ""}}).at(0)) << "none is left of the total";
  EXPECT_LE(bucket.peek("").reset_after, 2h) << "so none is reserved";
  EXPECT_FALSE(reserve_all({{bucket, "", 1}}, 1min).at(0));
  reserved[0].commit(1);
  reserved[1].cancel();
  EXPECT_EQ(total_.peek("").remaining, 1);
  EXPECT_LE(bucket.peek("").reset_after, 1h);
}

TEST_F(ClaimsTest, RefuseClaimsThatCannotBeDecidedTogether) {
  Limiter other(std::make_shared<ScriptedStore>(), Limit("fixed_window 1/1h", "other"));
  EXPECT_THROW(acquire_all({}), std::invalid_argument);
  EXPECT_THROW(acquire_all({{host_, "a"}, {other, "a"}}), std::invalid_argument);
  EXPECT_THROW(acquire_all({{host_, "a"}, {host_, "a"}}), std::invalid_argument);
  EXPECT_THROW(acquire_all({{host_, "a"}, {total_, ""}}, -1ns), std::invalid_argument);
  EXPECT_THROW(reserve_all({{host_, "a"}, {host_, "a"}}), std::invalid_argument);

  // Also while the store is not asked, since other callers wait.
  total_.check("", 2);
  auto first = wait_at(total_, "a");
  EXPECT_THROW(acquire_all({{total_, ""}, {host_, "b"}, {host_, "b"}}, 1ms), std::invalid_argument);
  total_.refund("", 1);
  EXPECT_TRUE(first.get().allowed);
}

}  // namespace
}  // namespace sluice

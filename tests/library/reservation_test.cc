#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "limiters.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

TEST(Reservation, IsDeniedUntilItIsMade) {
  Reservation none;
  EXPECT_FALSE(none);
  EXPECT_FALSE(none.decision().allowed);
  EXPECT_EQ(none.delay(), 0ns);
  EXPECT_FALSE(none.wait());
  none.cancel();
  EXPECT_FALSE(none.commit(3).allowed);
}

TEST(Reservation, TakesWhatThereIs) {
  Limiter limiter = make_limiter(kBucket);
  Reservation reservation = limiter.reserve("a", 4);
  EXPECT_TRUE(reservation);
  EXPECT_EQ(reservation.decision().remaining, 6);
  EXPECT_EQ(reservation.delay(), 0ns);
  EXPECT_TRUE(reservation.wait());
  EXPECT_EQ(limiter.peek("a").remaining, 6);
}

TEST(Reservation, TakesWhatIsStillToCome) {
  Limiter limiter = make_limiter(kBucket);
  limiter.check("a", 10);
  Reservation later = limiter.reserve("a", 5);
  EXPECT_TRUE(later);
  EXPECT_GT(later.delay(), kWeek / 2 - 1h);
  EXPECT_LE(later.delay(), later.decision().delay);
  const Reservation impatient = limiter.reserve("a", 5, kWeek / 2);
  EXPECT_FALSE(impatient);
  EXPECT_GT(impatient.decision().retry_after, 0ns);
  EXPECT_FALSE(limiter.reserve("a", 1, 0ns));
  EXPECT_TRUE(limiter.reserve("b", 10, 0ns));
}

TEST(Reservation, OfOtherLimitsIsNowOrNot) {
  Limiter limiter = make_limiter("sliding_log 5/1w");
  EXPECT_TRUE(limiter.reserve("a", 5));
  EXPECT_FALSE(limiter.reserve("a", 1));
}

TEST(Reservation, CancelReturnsItsUnits) {
  Limiter limiter = make_limiter(kBucket);
  Reservation reservation = limiter.reserve("a", 4);
  EXPECT_FALSE(reservation.is_cancelled());
  reservation.cancel();
  EXPECT_TRUE(reservation.is_cancelled());
  EXPECT_EQ(limiter.peek("a").remaining, 10);
  limiter.check("a", 10);
  reservation.cancel();
  EXPECT_EQ(reservation.commit(0), reservation.decision());
  EXPECT_FALSE(reservation.wait());
  EXPECT_EQ(limiter.peek("a").remaining, 0) << "once";
}

TEST(Reservation, ReturnsNothingThatAResetHasForgotten) {
  Limiter limiter = make_limiter(kBucket);
  Reservation cancelled = limiter.reserve("a", 4);
  Reservation committed = limiter.reserve("a", 4);
  Reservation listed = std::move(reserve_all({{limiter, "a", 1}}).at(0));
  std::optional<Reservation> later;
  limiter.async_reserve(
      "a", 1, 0ns, [&](Reservation made, std::exception_ptr) { later.emplace(std::move(made)); });
  limiter.reset("other");
  limiter.reset("a");
  limiter.check("a", 10);  // Others take them.
  cancelled.cancel();
  EXPECT_EQ(committed.commit(1).remaining, 0);
  listed.cancel();
  later->async_cancel([](std::exception_ptr) {});
  EXPECT_EQ(limiter.peek("a").remaining, 0);
  limiter.reset("a");
  Reservation since = limiter.reserve("a", 4);
  limiter.reset("other");
  since.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 10);
}

TEST(Reservation, IsSettledForWhatItCost) {
  Limiter limiter = make_limiter(kBucket);
  EXPECT_EQ(limiter.reserve("a", 6).commit(2).remaining, 8);
  EXPECT_EQ(limiter.reserve("a", 3).commit(3).remaining, 5);
  EXPECT_EQ(limiter.reserve("a", 0).commit(1).remaining, 4);
  Reservation cheap = limiter.reserve("a", 1);
  const Decision debt = cheap.commit(20);
  EXPECT_TRUE(debt.allowed);
  EXPECT_EQ(debt.remaining, 0);
  EXPECT_GT(debt.reset_after, 2 * kWeek);
  EXPECT_EQ(cheap.commit(0), cheap.decision()) << "once";
  EXPECT_GT(limiter.peek("a").reset_after, 2 * kWeek);
  EXPECT_THROW(limiter.reserve("b", 1).commit(-1), std::invalid_argument);
}

TEST(Reservation, ThatJustGoesStaysTaken) {
  Limiter limiter = make_limiter(kBucket);
  { const Reservation reservation = limiter.reserve("a", 4); }
  EXPECT_EQ(limiter.peek("a").remaining, 6);
}

TEST(Reservation, Moves) {
  Limiter limiter = make_limiter(kBucket);
  Reservation first = limiter.reserve("a", 4);
  Reservation second = std::move(first);
  // NOLINTBEGIN(bugprone-use-after-move,clang-analyzer-cplusplus.Move): it holds nothing.
  EXPECT_FALSE(first);
  first.cancel();
  // NOLINTEND(bugprone-use-after-move,clang-analyzer-cplusplus.Move)
  EXPECT_EQ(limiter.peek("a").remaining, 6);
  Reservation third = limiter.reserve("a", 1);
  third = std::move(second);
  third.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 9) << "what the third was stays taken";
}

TEST(Reservation, OutlivesItsLimiter) {
  const auto store = open_store("memory:");
  Reservation reservation;
  Limiter other(store, Limit("token_bucket 10/1w", "budget"));
  {
    Limiter limiter(store, Limit("token_bucket 10/1w", "budget"));
    reservation = limiter.reserve("a", 4);
  }
  EXPECT_EQ(reservation.commit(1).remaining, 9);
  EXPECT_EQ(other.peek("a").remaining, 9);
}

TEST(Reservation, IsSettledByTheNumbersThatGaveIt) {
  Limiter limiter(open_store("memory:"), Limit("token_bucket 10/1w", "budget"));
  Reservation reservation = limiter.reserve("a", 4);
  limiter.set_limit(Limit("token_bucket 20/1w", "budget"));
  EXPECT_EQ(limiter.peek("a").remaining, 12);
  reservation.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 20);
}

TEST(Reservation, ReturnsNothingIfTheKeysHaveStartedFreshSince) {
  Limiter limiter(open_store("memory:"), Limit("token_bucket 10/1w", "budget"));
  Reservation reservation = limiter.reserve("a", 4);
  Reservation exceeded = limiter.reserve("a", 4);
  limiter.set_limit(Limit("sliding_log 7/1w", "budget"));
  limiter.check("a", 2);
  reservation.cancel();
  EXPECT_EQ(limiter.peek("a").remaining, 5);
  EXPECT_EQ(exceeded.commit(7).remaining, 2) << "what it cost beyond 4 is charged";
  EXPECT_EQ(limiter.peek("a").remaining, 2);
}

TEST(Reservation, WaitsForItsTurn) {
  Limiter limiter = make_limiter("token_bucket 1/20ms");
  EXPECT_TRUE(limiter.check("a").allowed);
  const auto begin = steady_clock::now();
  Reservation reservation = limiter.reserve("a");
  const auto ready = steady_clock::now() + reservation.decision().delay;
  EXPECT_TRUE(reservation.wait());
  EXPECT_GE(steady_clock::now(), begin + reservation.decision().delay);
  EXPECT_GE(steady_clock::now() + 1ms, ready);
  EXPECT_EQ(reservation.delay(), 0ns);
}

TEST(Reservation, AStoppedWaitReturnsItsUnits) {
  Limiter limiter = make_limiter(kBucket);
  limiter.check("a", 10);
  Reservation reservation = limiter.reserve("a", 5);
  std::stop_source source;
  std::jthread stopper([&source] { source.request_stop(); });
  EXPECT_FALSE(reservation.wait(source.get_token()));
  EXPECT_FALSE(reservation.wait());
  EXPECT_LE(limiter.peek("a").reset_after, kWeek);
  Reservation stopped = limiter.reserve("a", 5);
  EXPECT_FALSE(stopped.wait(source.get_token())) << "at once";
  EXPECT_LE(limiter.peek("a").reset_after, kWeek);
}

TEST(Reservation, ThatIsSettledGivesNothingBackWhenTheWaitIsStopped) {
  Limiter limiter = make_limiter(kBucket);
  limiter.check("a", 10);
  Reservation reservation = limiter.reserve("a", 5);
  reservation.commit(5);
  std::stop_source source;
  source.request_stop();
  EXPECT_FALSE(reservation.wait(source.get_token()));
  EXPECT_GT(limiter.peek("a").reset_after, kWeek);
}

TEST(Reservation, ThatIsReadyWasNotStopped) {
  Limiter limiter = make_limiter(kBucket);
  std::stop_source source;
  source.request_stop();
  EXPECT_TRUE(limiter.reserve("a").wait(source.get_token()));
  EXPECT_EQ(limiter.peek("a").remaining, 9);
}

}  // namespace
}  // namespace sluice

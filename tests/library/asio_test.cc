#include "sluice/asio.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sluice/sluice.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

class AsioTest : public testing::Test {
 protected:
  // Runs a coroutine to its end, and throws its exception.
  template <class Coroutine>
  void run(Coroutine coroutine) {
    std::exception_ptr error;
    asio::co_spawn(io_, std::move(coroutine),
                   [&](std::exception_ptr thrown) { error = std::move(thrown); });
    io_.restart();
    io_.run();
    if (error) std::rethrow_exception(error);
  }

  // A handler of this io_context that keeps its argument, or whether it is true.
  template <class Kept>
  auto keep(std::optional<Kept>& kept) {
    return asio::bind_executor(io_, [&kept](std::exception_ptr error, const auto& result) {
      EXPECT_EQ(error, nullptr);
      kept = static_cast<Kept>(result);
    });
  }

  // A handler that holds a share of `owned`, and must not run.
  static auto fails_on(auto executor, const std::shared_ptr<int>& owned = nullptr) {
    return asio::bind_executor(executor, [owned](const std::exception_ptr&, const auto&) {
      FAIL() << "this must not be run";
    });
  }

  asio::io_context io_;
  std::shared_ptr<Store> store_ = open_store("memory:");
  Limiter limiter_{store_, Limit("token_bucket 10/1w", "bucket")};
  ConcurrencyLimiter jobs_{store_, Limit("concurrency 1", "jobs")};
};

TEST_F(AsioTest, CoroutinesCheck) {
  int asked = 0;
  run([&]() -> asio::awaitable<void> {
    for (; asked < 10; ++asked) {
      const Decision decision =
          co_await async_check(limiter_, std::string("k") + "ey", 1, asio::use_awaitable);
      EXPECT_TRUE(decision.allowed);
    }
    const Decision denied = co_await async_check(limiter_, "key", 1, asio::use_awaitable);
    EXPECT_FALSE(denied.allowed);
  });
  EXPECT_EQ(asked, 10);
}

TEST_F(AsioTest, CoroutinesThrow) {
  EXPECT_THROW(run([&]() -> asio::awaitable<void> {
                 co_await async_check(limiter_, "key", -1, asio::use_awaitable);
               }),
               std::invalid_argument);
}

TEST_F(AsioTest, FuturesCheck) {
  auto decision = async_check(limiter_, "key", 4, asio::use_future);
  EXPECT_EQ(decision.get().remaining, 6);
  auto wrong = async_check(limiter_, "key", -4, asio::use_future);
  EXPECT_THROW(wrong.get(), std::invalid_argument);
  EXPECT_TRUE(async_acquire(limiter_, "key", 6, 0s, asio::use_future).get().allowed);
  EXPECT_TRUE(async_acquire(jobs_, "key", 0s, asio::use_future).get().held());
}

TEST_F(AsioTest, HandlersRunOnTheirExecutorOnce) {
  std::optional<Decision> kept;
  async_check(limiter_, "key", 4, keep(kept));
  EXPECT_FALSE(kept) << "not before the operation returns";
  EXPECT_EQ(io_.run(), 1U) << "which has work until then";
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->remaining, 6);
}

TEST_F(AsioTest, HandlersMayBeMovedOnly) {
  bool told = false;
  async_check(limiter_, "key", 1,
              asio::bind_executor(io_, [&, held = std::make_unique<int>(7)](
                                           std::exception_ptr, const Decision& decision) {
                told = decision.allowed && *held == 7;
              }));
  io_.run();
  EXPECT_TRUE(told);
}

TEST_F(AsioTest, HandlersMayBeOfTheTypeThatHidesThem) {
  using Handler = asio::any_completion_handler<void(std::exception_ptr, Decision)>;
  std::optional<Decision> kept;
  asio::post(io_, [&] {
    async_acquire(limiter_, "key", 1, 1s, Handler(keep(kept)));
    EXPECT_FALSE(kept) << "not before the operation returns";
  });
  io_.run();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->remaining, 9);

  std::promise<bool> told;
  async_check(limiter_, "key", 1, Handler([&](std::exception_ptr, const Decision& decision) {
                told.set_value(decision.allowed);
              }));
  EXPECT_TRUE(told.get_future().get()) << "also where there is no executor";

  Reservation reservation = limiter_.reserve("key");
  std::optional<bool> ready;
  async_wait(reservation,
             asio::any_completion_handler<void(std::exception_ptr, bool)>(keep(ready)));
  io_.restart();
  io_.run();
  EXPECT_EQ(ready, true);
}

TEST_F(AsioTest, CoroutinesAcquire) {
  Limiter quick(store_, Limit("token_bucket 1/5ms"));
  int turns = 0;
  run([&]() -> asio::awaitable<void> {
    for (; turns < 4; ++turns) {
      const Decision decision = co_await async_acquire(quick, "key", 1, 10s, asio::use_awaitable);
      EXPECT_TRUE(decision.allowed);
    }
  });
  EXPECT_EQ(turns, 4);
}

TEST_F(AsioTest, AnExecutorHasWorkWhileItsHandlerWaits) {
  Limiter quick(store_, Limit("token_bucket 1/20ms"));
  quick.check("key");
  std::optional<Decision> kept;
  async_acquire(quick, "key", 1, 10s, keep(kept));
  EXPECT_EQ(io_.run(), 1U);
  ASSERT_TRUE(kept);
  EXPECT_TRUE(kept->allowed);
}

TEST_F(AsioTest, AnAcquisitionIsCancelled) {
  limiter_.check("key", 10);
  const auto owed = limiter_.peek("key").reset_after;
  asio::cancellation_signal signal;
  std::optional<Decision> kept;
  async_acquire(limiter_, "key", 5, kForever,
                asio::bind_cancellation_slot(signal.slot(), keep(kept)));
  EXPECT_GT(limiter_.peek("key").reset_after, owed);
  signal.emit(asio::cancellation_type::total);
  io_.run();
  ASSERT_TRUE(kept);
  EXPECT_FALSE(kept->allowed);
  EXPECT_LE(limiter_.peek("key").reset_after, owed) << "what was reserved was refunded";
  signal.emit(asio::cancellation_type::total);
}

TEST_F(AsioTest, CoroutinesAcquirePermits) {
  int most = 0;
  int held = 0;
  int done = 0;
  const auto work = [&]() -> asio::awaitable<void> {
    const Permit permit = co_await async_acquire(jobs_, "key", 10s, asio::use_awaitable);
    EXPECT_TRUE(permit);
    most = std::max(most, ++held);
    co_await asio::post(asio::use_awaitable);
    --held;
    ++done;
  };
  for (int i = 0; i < 3; ++i) asio::co_spawn(io_, work, asio::detached);
  io_.run();
  EXPECT_EQ(done, 3);
  EXPECT_EQ(most, 1);
}

TEST_F(AsioTest, AWaitForAPermitIsCancelled) {
  const Permit permit = jobs_.try_acquire("key");
  asio::cancellation_signal signal;
  std::optional<bool> granted;
  async_acquire(jobs_, "key", kForever, asio::bind_cancellation_slot(signal.slot(), keep(granted)));
  signal.emit(asio::cancellation_type::terminal);
  io_.run();
  EXPECT_EQ(granted, false);
}

TEST_F(AsioTest, PermitsOfHandlersThatAreNeverCalledAreReleased) {
  {
    asio::io_context other;
    async_acquire(jobs_, "key", 0s, fails_on(other.get_executor()));
    EXPECT_EQ(jobs_.peek("key").remaining, 0);
  }
  EXPECT_EQ(jobs_.peek("key").remaining, 1);
}

TEST_F(AsioTest, AnOperationIsAbandonedWithItsContext) {
  std::optional<Permit> held = jobs_.try_acquire("key");
  limiter_.check("key", 10);
  const auto owed = limiter_.peek("key").reset_after;
  auto other = std::make_optional<asio::io_context>();
  const auto handlers = std::make_shared<int>();
  async_acquire(jobs_, "key", kForever, fails_on(other->get_executor(), handlers));
  async_acquire(jobs_, "key", kForever, fails_on(asio::make_strand(*other), handlers));
  async_acquire(limiter_, "key", 5, kForever, fails_on(other->get_executor(), handlers));
  EXPECT_GT(limiter_.peek("key").reset_after, owed);
  other.reset();
  EXPECT_EQ(handlers.use_count(), 1) << "they are destroyed";
  held.reset();
  EXPECT_TRUE(jobs_.acquire("key", 10s).held()) << "no abandoned operation waits";
  while (limiter_.peek("key").reset_after > owed) std::this_thread::yield();
}

TEST_F(AsioTest, TheFramesOfAbandonedCoroutinesReleaseTheirPermits) {
  auto other = std::make_optional<asio::io_context>();
  for (int i = 0; i < 3; ++i) {
    asio::co_spawn(
        *other,
        [&]() -> asio::awaitable<void> {
          const Permit permit = co_await async_acquire(jobs_, "key", kForever, asio::use_awaitable);
          asio::steady_timer works(co_await asio::this_coro::executor, 1h);
          co_await works.async_wait(asio::use_awaitable);
        },
        asio::detached);
  }
  while (jobs_.peek("key").remaining > 0) other->run_one();
  other->poll();
  other.reset();
  EXPECT_TRUE(jobs_.acquire("key", 10s).held());
}

TEST_F(AsioTest, AContextMayBeDestroyedWhileAnOperationCompletes) {
  for (int round = 0; round < 200; ++round) {
    std::optional<Permit> held = jobs_.try_acquire("key");
    ASSERT_TRUE(*held);
    auto other = std::make_optional<asio::thread_pool>(1);
    async_acquire(jobs_, "key", kForever,
                  asio::bind_executor(*other, [](const std::exception_ptr&, const Permit&) {}));
    auto released = std::async(std::launch::async, [&] { held.reset(); });
    other.reset();
    released.get();
    ASSERT_TRUE(jobs_.acquire("key", 10s).held()) << round;
    while (jobs_.peek("key").remaining == 0) std::this_thread::yield();
  }
}

// An executor that keeps its context alive. What it is given has run, on a thread of its own, when
// execute() returns.
struct OwningExecutor {
  std::shared_ptr<asio::io_context> context;

  asio::io_context& query(asio::execution::context_t) const noexcept { return *context; }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  OwningExecutor require(asio::execution::blocking_t::never_t) const { return *this; }
  template <class Function>
  void execute(Function function) const {
    asio::post(*context, std::move(function));
    std::thread([io = context.get()] { io->run_one(); }).join();
  }
  [[maybe_unused]] friend bool operator==(const OwningExecutor&, const OwningExecutor&) = default;
};

TEST_F(AsioTest, AContextMayBeDestroyedByTheThreadThatCompletesAnOperation) {
  ManualClock clock;  // Its thread completes the operation.
  Limiter limiter(open_store("memory:", clock), Limit("token_bucket 1/1s"));
  limiter.check("key");
  auto context = std::make_shared<asio::io_context>();
  const std::weak_ptr<asio::io_context> lives = context;
  bool told = false;
  async_acquire(
      limiter, "key", 1, kForever,
      asio::bind_executor(OwningExecutor{std::move(context)},
                          [&](const std::exception_ptr&, const Decision&) { told = true; }));
  EXPECT_FALSE(lives.expired());
  clock.advance(1s);
  EXPECT_TRUE(told);
  EXPECT_TRUE(lives.expired()) << "the operation had its last share";
}

TEST_F(AsioTest, ManyThreadsServeManyWaiters) {
  asio::thread_pool pool(3);
  std::atomic<int> held{0};
  std::atomic<int> most{0};
  std::atomic<int> done{0};
  const auto work = [&]() -> asio::awaitable<void> {
    const Permit permit = co_await async_acquire(jobs_, "key", 60s, asio::use_awaitable);
    const int now = ++held;
    if (now > most) most = now;
    --held;
    if (permit) ++done;
  };
  for (int i = 0; i < 100; ++i) asio::co_spawn(pool, work, asio::detached);
  pool.join();
  EXPECT_EQ(done, 100);
  EXPECT_EQ(most, 1);
}

TEST_F(AsioTest, CoroutinesUseEveryCall) {
  Limiter window(store_, Limit("sliding_log 10/1w", "window"));
  run([&]() -> asio::awaitable<void> {
    const auto& token = asio::use_awaitable;
    EXPECT_EQ((co_await async_charge(window, std::string("k"), 8, token)).remaining, 2);
    EXPECT_EQ((co_await async_refund(window, std::string("k"), 5, token)).remaining, 7);
    EXPECT_EQ((co_await async_peek(window, std::string("k"), token)).remaining, 7);
    EXPECT_EQ((co_await async_take_up_to(window, std::string("k"), 9, token)).taken, 7);
    co_await async_reset(window, std::string("k"), token);
    EXPECT_TRUE((co_await async_block(window, std::string("k"), 1h, token)).allowed);
    EXPECT_FALSE((co_await async_check(window, "k", 1, token)).allowed);
    EXPECT_EQ((co_await async_peek(jobs_, "k", token)).remaining, 1);
    EXPECT_EQ((co_await async_block(jobs_, "k", 1h, token)).remaining, 0);
    co_await async_reset(jobs_, "k", token);
    EXPECT_EQ((co_await async_peek(jobs_, "k", token)).remaining, 1);
  });
  EXPECT_FALSE(window.check("k").allowed);
}

TEST_F(AsioTest, CoroutinesAskForManyAtOnce) {
  Limiter window(store_, Limit("sliding_log 3/1w", "window"));
  run([&]() -> asio::awaitable<void> {
    std::vector<std::string> keys{"a", "b", "a"};
    std::vector<Ask> asks;
    asks.reserve(keys.size());
    for (const std::string& key : keys) asks.push_back({.key = key, .cost = 2});
    auto all = async_check(window, asks, asio::use_awaitable);
    keys = {"x", "y", "z"};  // It has copies.
    const std::vector<Decision> decisions = co_await std::move(all);
    EXPECT_EQ(decisions.size(), 3U);
    EXPECT_EQ(decisions.at(1).remaining, 1);
    EXPECT_FALSE(decisions.at(2).allowed);

    const std::vector<Claim> claims{{window, "a"}, {limiter_, "all", 4}};
    EXPECT_TRUE((co_await async_check_all(claims, asio::use_awaitable)).allowed);
  });
  auto none = async_check_all({{window, "a"}, {limiter_, "all"}}, asio::use_future);
  EXPECT_FALSE(none.get().allowed);
  EXPECT_EQ(limiter_.peek("all").remaining, 6) << "nothing was taken from it";
  std::optional<Decision> kept;
  async_check_all({{window, "c"}, {limiter_, "all"}}, keep(kept));
  io_.restart();
  io_.run();
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->remaining, 2);
}

TEST_F(AsioTest, CoroutinesAreToldOfParts) {
  Limiter both(store_, Limit("sliding_log 9/1w & sliding_log 3/1w", "both"));
  run([&]() -> asio::awaitable<void> {
    const auto [whole, parts] =
        co_await async_check_parts(both, std::string("k"), 2, asio::use_awaitable);
    EXPECT_EQ(whole.binding, 1);
    EXPECT_EQ(parts.size(), 2U);
    EXPECT_EQ(parts.at(0).remaining, 7);
    EXPECT_EQ(parts.at(1).remaining, whole.remaining);
    const std::vector<Claim> claims{{limiter_, "all"}, {both, std::string("k"), 2}};
    const auto [denied, each] = co_await async_check_all_parts(claims, asio::use_awaitable);
    EXPECT_EQ(denied.binding, 1);
    EXPECT_EQ(each.size(), 2U);
    EXPECT_EQ(each.at(0).remaining, 10);
    EXPECT_FALSE(each.at(1).allowed);
  });
}

TEST_F(AsioTest, EveryCallThrows) {
  const std::vector<Ask> asks{{.key = "key", .cost = -1}};
  EXPECT_THROW(async_check(limiter_, asks, asio::use_future).get(), std::invalid_argument);
  EXPECT_THROW(async_check_all({}, asio::use_future).get(), std::invalid_argument);
  EXPECT_THROW(async_charge(limiter_, "key", -1, asio::use_future).get(), std::invalid_argument);
  EXPECT_THROW(async_block(jobs_, "key", 0ns, asio::use_future).get(), std::invalid_argument);
  EXPECT_THROW(async_reserve(limiter_, "key", -1, 0s, asio::use_future).get(),
               std::invalid_argument);
  Reservation reservation = async_reserve(limiter_, "key", 4, 0s, asio::use_future).get();
  EXPECT_THROW(async_commit(reservation, -1, asio::use_future).get(), std::invalid_argument);
  EXPECT_EQ(async_commit(reservation, 1, asio::use_future).get().remaining, 9);
}

TEST_F(AsioTest, CoroutinesReserveWaitAndSettle) {
  Limiter quick(store_, Limit("token_bucket 1/5ms burst=2"));
  run([&]() -> asio::awaitable<void> {
    const auto& token = asio::use_awaitable;
    co_await async_charge(quick, "key", 2, token);
    Reservation later = co_await async_reserve(quick, std::string("key"), 2, kForever, token);
    const auto ready = std::chrono::steady_clock::now() + later.delay();
    EXPECT_TRUE(co_await async_wait(later, token));
    EXPECT_GE(std::chrono::steady_clock::now() + 1ms, ready);
    EXPECT_EQ(later.delay(), 0ns);
    EXPECT_TRUE((co_await async_commit(later, 0, token)).allowed);

    Reservation all = co_await async_reserve(limiter_, "key", 10, 0s, token);
    co_await async_cancel(all, token);
    EXPECT_FALSE(co_await async_wait(all, token)) << "it is cancelled";
    Reservation denied = co_await async_reserve(limiter_, "key", 11, 0s, token);
    EXPECT_FALSE(denied);
    EXPECT_FALSE(co_await async_wait(denied, token));
  });
  EXPECT_EQ(limiter_.peek("key").remaining, 10);
  Reservation ready = limiter_.reserve("key", 10);
  EXPECT_TRUE(async_wait(ready, asio::use_future).get()) << "and where there is no executor";
}

TEST_F(AsioTest, AWaitForReservedTimeIsCancelled) {
  limiter_.check("key", 10);
  Reservation reservation = limiter_.reserve("key", 5);
  const auto owed = limiter_.peek("key").reset_after;
  asio::cancellation_signal signal;
  std::optional<bool> waited;
  async_wait(reservation, asio::bind_cancellation_slot(signal.slot(), keep(waited)));
  signal.emit(asio::cancellation_type::total);
  io_.run();
  EXPECT_EQ(waited, false);
  EXPECT_LT(limiter_.peek("key").reset_after, owed) << "it was refunded";
  signal.emit(asio::cancellation_type::total);
  EXPECT_FALSE(reservation.wait());
}

// The timer of the wait is destroyed before the handler is called.
TEST_F(AsioTest, AWaitForReservedTimeMayBeCancelledUntilItsHandlerIsCalled) {
  for (const bool is_cancelled_early : {false, true}) {
    Limiter limiter(store_, Limit("token_bucket 2/1w", is_cancelled_early ? "early" : "late"));
    if (is_cancelled_early) limiter.check("key", 2);
    Reservation reservation = limiter.reserve("key");
    asio::cancellation_signal signal;
    std::optional<bool> waited;
    async_wait(reservation, asio::bind_cancellation_slot(signal.slot(), keep(waited)));
    if (is_cancelled_early) signal.emit(asio::cancellation_type::terminal);
    io_.restart();
    EXPECT_EQ(io_.run_one(), 1U) << "the timer has ended";
    EXPECT_FALSE(waited);
    signal.emit(asio::cancellation_type::terminal);
    io_.run();
    EXPECT_EQ(waited, !is_cancelled_early);
  }
}

TEST_F(AsioTest, ReservedTimeIsWaitedForByTheClockOfTheExecutor) {
  ManualClock clock;
  Limiter limiter(open_store("memory:", clock), Limit("token_bucket 1/5ms"));
  limiter.check("key");
  Reservation later = limiter.reserve("key");
  auto waited = std::async(std::launch::async, [&] {
    bool ready = false;
    run([&]() -> asio::awaitable<void> {
      ready = co_await async_wait(later, asio::use_awaitable);
    });
    return ready;
  });
  if (waited.wait_for(10s) != std::future_status::ready) {
    ADD_FAILURE() << "it blocks the thread of the executor";
    clock.advance(1s);
  }
  EXPECT_TRUE(waited.get());
  EXPECT_EQ(later.delay(), 5ms) << "the manual clock stands still";
}

TEST_F(AsioTest, AReservationWhoseWaiterIsNeverCalledStaysTaken) {
  limiter_.check("key", 10);
  Reservation reservation = limiter_.reserve("key", 5);
  const auto owed = limiter_.peek("key").reset_after;
  {
    asio::io_context other;
    async_wait(reservation, fails_on(other.get_executor()));
  }
  EXPECT_GT(limiter_.peek("key").reset_after, owed - 1h);
}

}  // namespace
}  // namespace sluice

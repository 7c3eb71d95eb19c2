// Many coroutines of one thread, all of which wait for a server at once.

#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <functional>
#include <string>
#include <thread>

#include "servers/each_server.h"
#include "sluice/asio.h"
#include "sluice/sluice.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
namespace asio = boost::asio;

constexpr int kCoroutines = 500;
constexpr int kLimit = 100;

class CoroutinesOn : public servers::OnEachServer {
 protected:
  Limiter limiter_with(const std::string& options) const {
    return Limiter(open_store(server_->url() + "?" + options),
                   Limit("sliding_log " + std::to_string(kLimit) + "/1w"));
  }

  // Starts all coroutines, each with its number. Returns when they have ended, or after `most`.
  void run(const std::function<asio::awaitable<void>(int)>& coroutine,
           std::chrono::nanoseconds most) {
    for (int i = 0; i < kCoroutines; ++i) {
      asio::co_spawn(io_, coroutine(i), [this](const std::exception_ptr& error) {
        if (error) std::rethrow_exception(error);
        ++ended_;
      });
    }
    io_.run_for(most);
  }

  // The store admits one unit and then hangs. Then each coroutine calls `first` and asks for one
  // unit; the local states must answer it within `most`, with what is left of the limit.
  void expect_local_answers(const std::string& options, const std::function<void(int)>& first,
                            std::chrono::nanoseconds most) {
    Limiter limiter = limiter_with(options);
    ASSERT_EQ(limiter.check("shared").source, Source::kStore);
    server_->pause();
    int admitted = 0;
    run(
        [&](int number) -> asio::awaitable<void> {
          first(number);
          const Decision decision = co_await async_check(limiter, "shared", 1, asio::use_awaitable);
          EXPECT_EQ(decision.source, Source::kLocal);
          admitted += decision.allowed ? 1 : 0;
        },
        most);
    EXPECT_EQ(ended_, kCoroutines);
    EXPECT_EQ(admitted, kLimit - 1);
  }

  int ended_ = 0;
  asio::io_context io_;
};

INSTANTIATE_TEST_SUITE_P(EveryServer, CoroutinesOn, servers::kEachServer, servers::name_of);

// Each coroutine gets the decision of its own request, on its own thread.
TEST_P(CoroutinesOn, ShareAConnectionAndTheLimit) {
  Limiter limiter = limiter_with("deadline=30s&on_failure=raise&deny_cache=no");
  // A connection whose handshake a busy machine delays for long is given up for another.
  ASSERT_EQ(limiter.peek("shared").source, Source::kStore);
  const long before = server_->connections_ever();
  const auto thread = std::this_thread::get_id();
  int admitted = 0;
  run(
      [&](int number) -> asio::awaitable<void> {
        const Decision shared = co_await async_check(limiter, "shared", 1, asio::use_awaitable);
        admitted += shared.allowed ? 1 : 0;
        EXPECT_EQ(std::this_thread::get_id(), thread);
        const int cost = 1 + number % kLimit;
        const Decision own =
            co_await async_check(limiter, std::to_string(number), cost, asio::use_awaitable);
        EXPECT_EQ(own.remaining, kLimit - cost);
      },
      60s);
  EXPECT_EQ(ended_, kCoroutines);
  EXPECT_EQ(admitted, kLimit);
  EXPECT_EQ(server_->connections_ever() - before, 1) << "only the one that asks";
}

// They wait until the deadline; the connection is given up only after twice the deadline.
TEST_P(CoroutinesOn, AreAnsweredLocallyByTheDeadlineWhileTheServerHangs) {
  const auto nothing = [](int) {};
  expect_local_answers("deadline=4s", nothing, 7500ms);
}

TEST_P(CoroutinesOn, AreAnsweredLocallyAtOnceWhenTheServerIsKilled) {
  const auto kill = [this](int number) {
    if (number == kCoroutines - 1) server_->kill();  // While the others wait.
  };
  expect_local_answers("deadline=30s", kill, 10s);
}

}  // namespace
}  // namespace sluice

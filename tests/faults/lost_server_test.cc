// The server is killed, hangs, or cannot be reached: the same tests for every kind of store.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/each_server.h"
#include "servers/fault_proxy.h"
#include "sluice/health.h"
#include "sluice/limiter.h"
#include "stores/stores.h"

namespace sluice::faults {
namespace {

using servers::FaultProxy;

class LostServer : public servers::OnEachServer {
 protected:
  std::string url(std::uint16_t port, const std::string& options = "") const {
    return std::string(GetParam().name) + "://127.0.0.1:" + std::to_string(port) + '?' + options;
  }

  // Each round uses an empty server, through this port. This process decides instead of it.
  void expect_bearable(Fault fault, std::uint16_t port, const std::function<void(Load&)>& make) {
    fault.name = std::string(GetParam().name) + ", " + fault.name;
    fault.least_instead = std::max<std::size_t>(fault.least_instead, 1);
    expect_whole(fault, [&] {
      server_->restart();
      Load load(url(port));
      return through(load, [&] { make(load); });
    });
  }

  FaultProxy proxy_{server_->port()};
};

INSTANTIATE_TEST_SUITE_P(EveryServer, LostServer, servers::kEachServer, servers::name_of);

// A restarted server has forgotten all states: each key may use its limit once more. While the
// server is down, this process admits at most the limit.
TEST_P(LostServer, IsKilledAndStartedAgain) {
  expect_bearable({.name = "killed, started again 500 ms later",
                   .bound = Bound{.by_store = 2, .in_all = 2},
                   .least_instead = 100},
                  server_->port(), [&](Load& load) {
                    server_->kill();
                    run(500ms);
                    load.state_is_lost();
                    server_->restart();
                  });
}

// The server keeps its states: this process admits what remains, and charges that to the server.
TEST_P(LostServer, StandsStill) {
  expect_bearable({.name = "stopped (SIGSTOP)", .known_after = 5 * kDeadline}, server_->port(),
                  [&](Load&) {
                    server_->pause();
                    run(std::string_view(GetParam().name) == "redis" ? 5s : 1s);
                    server_->resume();
                  });
}

TEST_P(LostServer, RefusesConnections) {
  expect_bearable({.name = "connections cut and refused for 500 ms"}, proxy_.port(), [&](Load&) {
    proxy_.refuse();
    proxy_.cut_now();
    run(500ms);
    proxy_.pass();
  });
}

// For longer than the timeout of a silent connection: the server finally executes requests whose
// callers have been answered.
TEST_P(LostServer, AcceptsAndSaysNothing) {
  expect_bearable({.name = "connections stalled for 1.5 s", .known_after = 5 * kDeadline},
                  proxy_.port(), [&](Load&) {
                    proxy_.stall();
                    run(1500ms);
                    proxy_.pass();
                  });
}

// Shorter than that: the connection is kept, and late replies are dropped.
TEST_P(LostServer, IsLateAgainAndAgain) {
  expect_bearable({.name = "six stalls of 60 ms"}, proxy_.port(), [&](Load&) {
    const std::size_t before = proxy_.accepted();
    std::size_t most_new = 2;
    for (int i = 0; i < 6; ++i) {
      const Clock::time_point began = Clock::now();
      proxy_.stall();
      run(60ms);
      proxy_.pass();
      if (Clock::now() - began > 200ms)
        ++most_new;  // This thread was held: it was silent for long.
      run(40ms);
    }
    EXPECT_LE(proxy_.accepted() - before, most_new);
  });
}

// A server that answers never counts as lost, even if it is always late: each caller waits until
// its deadline, and gets a local decision.
TEST_P(LostServer, IsAlwaysALittleLate) {
  expect_bearable({.name = "replies 2 ms too late for 1 s", .never_given_up = true}, proxy_.port(),
                  [&](Load&) {
                    proxy_.delay_replies(kDeadline + 2ms);
                    run(1s);
                    proxy_.pass();
                  });
}

// The store charges late requests, since it does not know the deadline. So what this process
// admitted for them is not charged again when the store answers in time.
TEST_P(LostServer, ChargesWhatItAnswersTooLate) {
  constexpr std::chrono::milliseconds kLongDeadline = 5 * kDeadline;
  Limiter limiter(
      open_store(url(proxy_.port(), "deadline=" + std::to_string(kLongDeadline.count()) + "ms")),
      Limit("fixed_window 10/100d"));
  await_store(limiter);
  proxy_.delay_replies(3 * kLongDeadline);
  // A process that is held until a late reply has come reads it before it answers the caller.
  int asked = 0;
  servers::await("a local decision", [&] {
    ++asked;
    return limiter.check("k").source == Source::kLocal;
  });
  proxy_.pass();
  servers::await("what is left", [&] {
    const Decision decision = limiter.peek("k");
    return decision.source == Source::kStore && decision.remaining == 10 - asked;
  });
}

// What is left by others is known from the late replies: the local states admit no whole limit.
TEST_P(LostServer, TellsTooLateWhatIsLeft) {
  constexpr std::chrono::milliseconds kLongDeadline = 3 * kDeadline;
  constexpr int kLimit = 40;
  constexpr int kLeft = 10;
  const Limit limit("fixed_window " + std::to_string(kLimit) + "/1000d", "late");
  Limiter other(open_store(url(server_->port(), "deadline=10s")), limit);
  const auto store =
      open_store(url(proxy_.port(), "deadline=" + std::to_string(kLongDeadline.count()) + "ms"));
  Limiter limiter(store, limit);
  await_store(limiter);
  // Without pauses a request of Memcached is judged on the value that was read for the one before.
  for (const std::chrono::milliseconds pause : {0ms, 2 * kDeadline}) {
    const std::string key = pause == 0ms ? "busy" : "calm";
    ASSERT_TRUE(other.check(key, kLimit - kLeft));
    proxy_.delay_replies(kLongDeadline + kDeadline);
    // Until the first late reply the local states know of no other process; and once that reply is
    // later than twice the deadline, no caller waits.
    int admitted = limiter.check(key) ? 1 : 0;
    servers::await("the first late reply", [&] { return limiter.peek(key).remaining < kLeft; });
    for (int denied = 0; admitted < kLimit && denied < 5; run(pause)) {
      ++(limiter.check(key) ? admitted : denied);
    }
    std::printf("[  FIGURES ] %s, always late: %d admitted of %d left\n", GetParam().name, admitted,
                kLeft);
    EXPECT_GE(admitted, kLeft / 2);
    EXPECT_LE(admitted, kLeft + 1);
    proxy_.pass();
    servers::await("an answer in time", [&] { return limiter.peek(key).source == Source::kStore; });
    servers::await("the charge", [&] {
      limiter.peek(key);  // A charge that was not executed is sent again after an answer in time.
      return other.peek(key).remaining == 0;
    });
  }
}

// Units that the store charged without a reply are used up. Requests that are not sent, because the
// connection has been silent for too long, are admitted locally.
TEST_P(LostServer, LosesItsReplies) {
  expect_bearable({.name = "replies swallowed three times for 150 ms"}, proxy_.port(), [&](Load&) {
    for (int i = 0; i < 3; ++i) {
      const std::size_t before = proxy_.swallowed_bytes();
      proxy_.swallow_replies();
      run(150ms);
      servers::await("a reply to swallow", [&] { return proxy_.swallowed_bytes() > before; });
      // In this order, so that the reply to the next connection's handshake is not swallowed.
      proxy_.pass();
      proxy_.cut_now();
      // Longer than the longest pause between attempts to connect.
      run(400ms);
    }
  });
}

// Cuts after so few bytes that a reply is cut even if the server gets few requests.
// A charge that is on its way when its connection ends may not reach the server. It is not sent
// again, so what was admitted locally may be admitted once more; it is counted.
TEST_P(LostServer, CutsItsReplies) {
  expect_bearable({.name = "connections cut within replies, thirty times",
                   .bound = Bound{.in_all = 2, .more = 4, .excess_is_counted = true}},
                  proxy_.port(), [&](Load&) {
                    const std::size_t before = proxy_.accepted();
                    for (std::size_t i = 0; i < 30; ++i) {
                      proxy_.cut_after(10 + 7 * i);
                      run(20ms);
                    }
                    proxy_.pass();
                    servers::await("a connection in place of one that was cut",
                                   [&] { return proxy_.accepted() > before; });
                  });
}

// A server that starts after the store was opened is used once it runs.
TEST_P(LostServer, ComesLate) {
  expect_in_time(std::string(GetParam().name) + " comes late", [&] {
    server_->kill();
    Limiter limiter(open_store(url(server_->port(), "deadline=5s")),
                    Limit("fixed_window 5/1d anchor=first"));
    EXPECT_EQ(limiter.check("k").source, Source::kLocal);
    server_->restart();
    Canary canary;
    const Clock::time_point back = Clock::now();
    await_store(limiter);
    const Clock::duration took = Clock::now() - back;
    servers::await("the charge", [&] { return limiter.peek("k").remaining == 4; });
    return Try{.machine_late = canary.stop(),
               .is_in_time = [took](Clock::duration room) { return took <= kRecovery + room; }};
  });
}

// Requests of asynchronous callers cannot accumulate without bound: the store holds at most
// 100,000.
TEST_P(LostServer, HasABoundedQueueBeforeIt) {
  constexpr std::size_t kRequests = 100;  // Of one caller.
  constexpr int kHeld = 1'000;
  constexpr int kMore = 10;
  const auto store = open_store(url(proxy_.port(), "deadline=3s&on_failure=deny"));
  const Limit limit("fixed_window 5/1d anchor=first");
  servers::await("the server",
                 [&] { return Limiter(store, limit).peek("k").source == Source::kStore; });
  proxy_.stall();

  const auto space = store->open_space(limit.definition());
  const std::vector<Request> requests(
      kRequests, Request{.limit = &limit.definition(), .space = space.get(), .key = "k"});
  std::atomic<int> open = kHeld + kMore;
  std::atomic<int> wrong = 0;
  const std::size_t before = resident_bytes();
  for (int i = kHeld + kMore; i > 0; --i) {
    auto batch = std::make_unique<Batch>(requests);
    batch->completion = [&](Batch& answered) {
      for (const Decision& decision : answered.decisions()) {
        if (decision.source != Source::kPolicy || decision.allowed) ++wrong;
      }
      --open;
    };
    store->submit(std::move(batch));
  }
  // Requests beyond that are answered at once.
  EXPECT_EQ(open.load(), kHeld);
  EXPECT_LE(resident_bytes(), before + 4 * kMostGrowth);
  servers::await("all answers", [&] { return open.load() == 0; });
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace sluice::faults

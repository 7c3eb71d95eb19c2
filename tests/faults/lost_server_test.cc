// The server is gone, or does not move.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "faults/canary.h"
#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/redis_server.h"

namespace sluice::faults {
namespace {

using servers::FaultProxy;
using servers::RedisServer;

std::string url_of(const FaultProxy& proxy) {
  return "redis://127.0.0.1:" + std::to_string(proxy.port());
}

// A restarted server has forgotten all: each key may be admitted once more, and while it was away
// this process admits no more than the limit by itself.
TEST(LostServer, IsKilledAndStartedAgain) {
  RedisServer server;
  expect_whole("killed, started again 500 ms later", [&] {
    Load load(server.url());
    Round round = through(load, [&] {
      server.kill();
      run(500ms);
      load.state_is_lost();
      server.restart();
    });
    expect_admitted(round.report, {.by_store = 2, .in_all = 2});
    EXPECT_GT(share_of(Source::kLocal, round.report).these, 100U);
    server.command({"FLUSHALL"});
    return round;
  });
}

// Its states are those it had: what was admitted meanwhile is what this process admits alone.
TEST(LostServer, StandsStillForFiveSeconds) {
  RedisServer server;
  expect_whole("stopped for 5 s", [&] {
    Load load(server.url());
    Round round = through(load, [&] {
      server.pause();
      run(5s);
      server.resume();
    });
    expect_admitted(round.report, {.by_store = 1, .in_all = 2});
    round.known_after = 400ms;
    server.command({"FLUSHALL"});
    return round;
  });
}

TEST(LostServer, RefusesConnections) {
  RedisServer server;
  FaultProxy proxy(server.port());
  expect_whole("connections cut and refused for 500 ms", [&] {
    Load load(url_of(proxy));
    Round round = through(load, [&] {
      proxy.refuse();
      proxy.cut_now();
      run(500ms);
      proxy.pass();
    });
    expect_admitted(round.report, {.by_store = 1, .in_all = 2});
    server.command({"FLUSHALL"});
    return round;
  });
}

// For longer than a connection may be silent: what the server gets at last, it carries out late,
// and nobody hears of it.
TEST(LostServer, AcceptsAndSaysNothing) {
  RedisServer server;
  FaultProxy proxy(server.port());
  expect_whole("connections stalled for 1.5 s", [&] {
    Load load(url_of(proxy));
    Round round = through(load, [&] {
      proxy.stall();
      run(1500ms);
      proxy.pass();
    });
    expect_admitted(round.report, {.by_store = 1, .in_all = 2});
    round.known_after = 400ms;
    server.command({"FLUSHALL"});
    return round;
  });
}

// Shorter than that: the connection is kept, and late replies meet nobody who waits for them.
TEST(LostServer, IsLateAgainAndAgain) {
  RedisServer server;
  FaultProxy proxy(server.port());
  expect_whole("six stalls of 60 ms", [&] {
    const std::size_t before = proxy.accepted();
    Load load(url_of(proxy));
    Round round = through(load, [&] {
      for (int i = 0; i < 6; ++i) {
        proxy.stall();
        run(60ms);
        proxy.pass();
        run(40ms);
      }
    });
    expect_admitted(round.report, {.by_store = 1, .in_all = 2});
    EXPECT_LE(proxy.accepted() - before, 3U);
    server.command({"FLUSHALL"});
    return round;
  });
}

// One that was not there when the store was opened is used once it is.
TEST(LostServer, ComesLate) {
  RedisServer server;
  expect_in_time("a store that comes late", [&] {
    server.kill();
    Limiter limiter(open_store(server.url() + "?deadline=5s"),
                    Limit("fixed_window 5/1d anchor=first"));
    EXPECT_EQ(limiter.check("k").source, Source::kLocal);
    server.restart();
    Canary canary;
    const Clock::time_point back = Clock::now();
    servers::await("the store", [&] { return limiter.peek("k").source == Source::kStore; });
    const Clock::duration took = Clock::now() - back;
    EXPECT_EQ(limiter.peek("k").remaining, 5);
    return Try{.machine_late = canary.stop(),
               .is_in_time = [took](Clock::duration room) { return took <= kRecovery + room; }};
  });
}

// A hundred requests of one caller, who does not wait.
struct Batch final : Inquiry {
  static constexpr std::size_t kRequests = 100;

  std::array<Decision, kRequests> room;
  std::atomic<int>* open = nullptr;

  void answered() noexcept override { open->fetch_sub(1); }
};

// Callers who do not wait for their answers cannot pile up without end: the store holds 100,000
// requests.
TEST(LostServer, HasABoundedQueueBeforeIt) {
  constexpr int kHeld = 1'000;
  constexpr int kMore = 10;
  const RedisServer server;
  FaultProxy proxy(server.port());
  const auto store = open_store(url_of(proxy) + "?deadline=1s&on_failure=deny");
  const Limit limit("fixed_window 5/1d anchor=first");
  servers::await("the server",
                 [&] { return Limiter(store, limit).peek("k").source == Source::kStore; });
  proxy.stall();

  const auto space = store->open_space(limit.definition());
  const std::vector<Request> requests(
      Batch::kRequests, Request{.limit = &limit.definition(), .space = space.get(), .key = "k"});
  std::atomic<int> open = kHeld + kMore;
  std::deque<Batch> batches(kHeld + kMore);
  int at_once = 0;
  for (Batch& batch : batches) {
    batch.requests = requests;
    batch.decisions = batch.room;
    batch.open = &open;
    if (!store->submit(batch)) continue;
    ++at_once;
    batch.answered();
  }
  EXPECT_EQ(at_once, kMore);
  servers::await("all answers", [&] { return open.load() == 0; });
  for (const Batch& batch : batches) {
    for (const Decision& decision : batch.room) {
      ASSERT_EQ(decision.source, Source::kPolicy);
      ASSERT_FALSE(decision.allowed);
    }
  }
}

}  // namespace
}  // namespace sluice::faults

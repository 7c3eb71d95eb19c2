// The server is gone, or does not move, or is not heard: the same for every kind of store.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "faults/canary.h"
#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/memcached_server.h"
#include "servers/redis_server.h"

namespace sluice::faults {
namespace {

using servers::FaultProxy;
using servers::MemcachedServer;
using servers::RedisServer;

struct StoreKind {
  const char* name;  // And the scheme of its URLs.
  std::shared_ptr<servers::Server> (*start)();
  std::chrono::milliseconds stands_still;

  friend std::ostream& operator<<(std::ostream& out, const StoreKind& kind) {
    return out << kind.name;
  }
};

template <typename Server>
std::shared_ptr<servers::Server> start() {
  return std::make_shared<Server>();
}

constexpr std::array<StoreKind, 2> kStoreKinds{{
    {"redis", &start<RedisServer>, 5s},
    {"memcached", &start<MemcachedServer>, 1s},
}};

struct Fault {
  std::string name;
  Bound bound = {.by_store = 1, .in_all = 2};
  std::optional<std::chrono::milliseconds> known_after = {};
  bool never_given_up = false;
  // More than so many are answered by this process.
  std::size_t least_local = 0;
  // While it lasts.
  std::size_t most_new_connections = std::numeric_limits<std::size_t>::max();
};

class LostServer : public testing::TestWithParam<StoreKind> {
 protected:
  std::string url(std::uint16_t port, const std::string& options = "") const {
    return std::string(GetParam().name) + "://127.0.0.1:" + std::to_string(port) + '?' + options;
  }

  // Each round on a server that has nothing yet, which is asked through that port.
  void expect_bearable(const Fault& fault, std::uint16_t port,
                       const std::function<void(Load&)>& make) {
    expect_whole(std::string(GetParam().name) + ", " + fault.name, [&] {
      server_->restart();
      Load load(url(port));
      std::size_t new_connections = 0;
      Round round = through(load, [&] {
        const std::size_t before = proxy_.accepted();
        make(load);
        new_connections = proxy_.accepted() - before;
      });
      expect_admitted(round.report, fault.bound);
      EXPECT_GT(share_of(Source::kLocal, round.report).these, fault.least_local);
      EXPECT_LE(new_connections, fault.most_new_connections);
      round.known_after = fault.known_after;
      round.never_given_up = fault.never_given_up;
      return round;
    });
  }

  void await_store(Limiter& limiter) const {
    servers::await("the store", [&] { return limiter.peek("k").source == Source::kStore; });
  }

  const std::shared_ptr<servers::Server> server_ = GetParam().start();
  FaultProxy proxy_{server_->port()};
};

INSTANTIATE_TEST_SUITE_P(EveryStore, LostServer, testing::ValuesIn(kStoreKinds),
                         [](const auto& tested) { return std::string(tested.param.name); });

// A restarted server has forgotten all: each key may be admitted once more, and while it was away
// this process admits no more than the limit by itself.
TEST_P(LostServer, IsKilledAndStartedAgain) {
  expect_bearable({.name = "killed, started again 500 ms later",
                   .bound = {.by_store = 2, .in_all = 2},
                   .least_local = 100},
                  server_->port(), [&](Load& load) {
                    server_->kill();
                    run(500ms);
                    load.state_is_lost();
                    server_->restart();
                  });
}

// Its states are those it had: what was admitted meanwhile is what this process admits alone.
TEST_P(LostServer, StandsStill) {
  expect_bearable({.name = "stopped (SIGSTOP)", .known_after = 5 * kDeadline}, server_->port(),
                  [&](Load&) {
                    server_->pause();
                    run(GetParam().stands_still);
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

// For longer than a connection may be silent: what the server gets at last, it carries out late,
// and nobody hears of it.
TEST_P(LostServer, AcceptsAndSaysNothing) {
  expect_bearable({.name = "connections stalled for 1.5 s", .known_after = 5 * kDeadline},
                  proxy_.port(), [&](Load&) {
                    proxy_.stall();
                    run(1500ms);
                    proxy_.pass();
                  });
}

// Shorter than that: the connection is kept, and late replies meet nobody who waits for them.
TEST_P(LostServer, IsLateAgainAndAgain) {
  expect_bearable({.name = "six stalls of 60 ms", .most_new_connections = 2}, proxy_.port(),
                  [&](Load&) {
                    for (int i = 0; i < 6; ++i) {
                      proxy_.stall();
                      run(60ms);
                      proxy_.pass();
                      run(40ms);
                    }
                  });
}

// A server that answers is not given up, however late it always is: each caller waits for as long
// as the deadline lets him, and is answered by this process.
TEST_P(LostServer, IsAlwaysALittleLate) {
  expect_bearable({.name = "replies 2 ms too late for 1 s", .never_given_up = true}, proxy_.port(),
                  [&](Load&) {
                    proxy_.delay_replies(kDeadline + 2ms);
                    run(1s);
                    proxy_.pass();
                  });
}

// So a unit is charged twice: by this process, and by the store, which hears of no deadline.
TEST_P(LostServer, ChargesWhatItAnswersTooLate) {
  constexpr std::chrono::milliseconds kLongDeadline = 5 * kDeadline;
  Limiter limiter(
      open_store(url(proxy_.port(), "deadline=" + std::to_string(kLongDeadline.count()) + "ms")),
      Limit("fixed_window 10/100d"));
  Decision before;
  servers::await("the store", [&] {
    before = limiter.check("k");
    return before.source == Source::kStore;
  });
  proxy_.delay_replies(3 * kLongDeadline);
  EXPECT_EQ(limiter.check("k").source, Source::kLocal);
  proxy_.pass();
  servers::await("what is left", [&] {
    const Decision decision = limiter.peek("k");
    return decision.source == Source::kStore && decision.remaining == before.remaining - 1;
  });
}

// What the store noted without saying so is used up. What is not even sent, because the connection
// has been silent for too long, is admitted by this process alone.
TEST_P(LostServer, LosesItsReplies) {
  expect_bearable({.name = "replies swallowed three times for 150 ms"}, proxy_.port(), [&](Load&) {
    for (int i = 0; i < 3; ++i) {
      const std::size_t before = proxy_.swallowed_bytes();
      proxy_.swallow_replies();
      run(150ms);
      EXPECT_GT(proxy_.swallowed_bytes(), before);
      proxy_.cut_now();
      proxy_.pass();
      // Longer than the longest pause before a connection is tried again.
      run(400ms);
    }
  });
}

// After so few bytes that some reply is cut however seldom the server is asked.
TEST_P(LostServer, CutsItsReplies) {
  expect_bearable({.name = "connections cut within replies, thirty times"}, proxy_.port(),
                  [&](Load&) {
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

// One that was not there when the store was opened is used once it is.
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
TEST_P(LostServer, HasABoundedQueueBeforeIt) {
  constexpr int kHeld = 1'000;
  constexpr int kMore = 10;
  const auto store = open_store(url(proxy_.port(), "deadline=1s&on_failure=deny"));
  const Limit limit("fixed_window 5/1d anchor=first");
  servers::await("the server",
                 [&] { return Limiter(store, limit).peek("k").source == Source::kStore; });
  proxy_.stall();

  const auto space = store->open_space(limit.definition());
  const std::vector<Request> requests(
      Batch::kRequests, Request{.limit = &limit.definition(), .space = space.get(), .key = "k"});
  std::atomic<int> open = kHeld + kMore;
  std::deque<Batch> batches(kHeld + kMore);
  const std::size_t before = resident_bytes();
  int at_once = 0;
  for (Batch& batch : batches) {
    batch.requests = requests;
    batch.decisions = batch.room;
    batch.open = &open;
    if (!store->submit_inquiry(batch)) continue;
    ++at_once;
    batch.answered();
  }
  EXPECT_EQ(at_once, kMore);
  EXPECT_LE(resident_bytes(), before + 4 * kMostGrowth);
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

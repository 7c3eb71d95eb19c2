// Each value of on_failure=, from the URL to the decision, while the server is down.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <string>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/redis_server.h"
#include "testing/error_of.h"

namespace sluice::faults {
namespace {

using servers::RedisServer;

// A limit of 8; the store has admitted 2 for "k" when the server is killed.
class WhileTheServerIsLost : public testing::Test {
 protected:
  Limiter lose(const std::string& options, std::int64_t used_by_others = 0) {
    // Once the server is known to be lost, callers are answered at once, whatever the deadline.
    Limiter limiter(open_store(server_.url() + "?deadline=5s" + options),
                    Limit("fixed_window 8/1d anchor=first"));
    await_store(limiter);
    EXPECT_EQ(limiter.check("k", 2).remaining, 6 - used_by_others);
    server_.kill();
    return limiter;
  }

  static int admitted(Limiter& limiter, const std::string& key) {
    int count = 0;
    for (int i = 0; i < 20; ++i) count += limiter.check(key).allowed ? 1 : 0;
    return count;
  }

  RedisServer server_;
};

TEST_F(WhileTheServerIsLost, LocalGoesOnFromWhatThisProcessDid) {
  Limiter limiter = lose("");
  const Decision decision = limiter.check("k");
  EXPECT_EQ(decision.source, Source::kLocal);
  EXPECT_EQ(decision.limit, 8);
  EXPECT_EQ(decision.remaining, 5);
  EXPECT_EQ(admitted(limiter, "k"), 5);
  EXPECT_EQ(admitted(limiter, "other"), 8);
}

TEST_F(WhileTheServerIsLost, LocalCanBeAShare) {
  Limiter limiter = lose("&local_share=1/4");
  EXPECT_EQ(admitted(limiter, "k"), 0);
  EXPECT_EQ(admitted(limiter, "other"), 2);
}

TEST_F(WhileTheServerIsLost, AllowAdmitsAll) {
  Limiter limiter = lose("&on_failure=allow");
  EXPECT_EQ(limiter.check("k").source, Source::kPolicy);
  EXPECT_EQ(admitted(limiter, "k"), 20);
}

TEST_F(WhileTheServerIsLost, DenyAdmitsNothingAndSaysToComeBackInASecond) {
  Limiter limiter = lose("&on_failure=deny");
  const Decision decision = limiter.check("k");
  EXPECT_EQ(decision.source, Source::kPolicy);
  EXPECT_EQ(decision.retry_after, 1s);
  EXPECT_EQ(admitted(limiter, "k"), 0);
  EXPECT_TRUE(limiter.peek("k").allowed);
  // The denial is not cached: the store is asked again once it is back.
  server_.restart();
  servers::await("the store", [&] { return limiter.check("k").source == Source::kStore; });
}

TEST_F(WhileTheServerIsLost, RaiseThrowsASentenceThatNamesTheServer) {
  Limiter limiter = lose("&on_failure=raise");
  EXPECT_THAT(error_of([&] { limiter.check("k"); }),
              testing::HasSubstr("127.0.0.1:" + std::to_string(server_.port())));
}

TEST_F(WhileTheServerIsLost, LocalKnowsWhatOtherProcessesUsed) {
  Limiter other(open_store(server_.url() + "?deadline=5s"),
                Limit("fixed_window 8/1d anchor=first"));
  EXPECT_EQ(other.check("k", 4).remaining, 4);
  EXPECT_EQ(other.check("used up", 8).remaining, 0);
  Limiter limiter = lose("", 4);
  EXPECT_EQ(admitted(limiter, "k"), 2);
  EXPECT_EQ(admitted(other, "k"), 4) << "as many as the store said to it";
  EXPECT_EQ(admitted(other, "used up"), 0);
}

TEST_F(WhileTheServerIsLost, LocalAdmissionsAreChargedToTheStore) {
  Limiter limiter = lose("");
  EXPECT_EQ(limiter.check("other", 5).source, Source::kLocal);
  server_.restart();  // From now on, this process asks nothing.
  Limiter of_another(open_store(server_.url() + "?deadline=5s"), limiter.limit());
  servers::await("the charge", [&] { return of_another.peek("other").remaining == 3; });
}

// Asks through another store object, as another process would.
TEST(Policies, ReturnedUnitsAreSeenByAllWithinASecond) {
  RedisServer server;
  const Limit limit("fixed_window 8/1d anchor=first", "limit");
  Limiter one(open_store(server.url() + "?deadline=5s"), limit);
  Limiter two(open_store(server.url() + "?deadline=5s"), limit);
  int tries = 0;
  const auto is_seen = [&](const std::string& what, const auto& deny, const auto& return_units) {
    expect_in_time(what, [&] {
      const std::string key = what + std::to_string(++tries);
      Canary canary;
      deny(key);
      const Clock::time_point denied = Clock::now();
      EXPECT_FALSE(two.check(key).allowed);
      const bool is_cached = two.check(key).source == Source::kCache;  // Unless it comes too late.
      return_units(key);
      servers::await(key, [&] { return two.check(key).allowed; });
      const Clock::duration took = Clock::now() - denied;
      return Try{.machine_late = canary.stop(), .is_in_time = [=](Clock::duration room) {
                   return is_cached && took < 1200ms + room;
                 }};
    });
  };
  const auto use_up = [&](const std::string& key) { one.charge(key, 8); };
  const auto block = [&](const std::string& key) { one.block(key, 1h); };
  const auto reset = [&](const std::string& key) { one.reset(key); };
  is_seen("reset", use_up, reset);
  is_seen("refund", use_up, [&](const std::string& key) { one.refund(key, 8); });
  is_seen("unblocked", block, reset);
  EXPECT_TRUE(two.check("raised", 8).allowed);
  EXPECT_FALSE(two.check("raised").allowed);
  two.set_limit(Limit("fixed_window 9/1d anchor=first", "limit"));
  EXPECT_TRUE(two.check("raised").allowed) << "at once";
}

// Each asks when it comes, and again within a second.
TEST(Policies, ReturnedUnitsAreSeenByWaitingCallersWithinASecond) {
  RedisServer server;
  const auto is_seen = [&](const std::string& what, const std::string& expression, const auto& deny,
                           const auto& return_units) {
    const Limit limit(expression, "limit." + what);
    Limiter one(open_store(server.url() + "?deadline=5s"), limit);
    Limiter two(open_store(server.url() + "?deadline=5s"), limit);
    int tries = 0;
    expect_in_time(what, [&] {
      const std::string key = std::to_string(++tries);
      Canary canary;
      deny(one, key);
      const Clock::time_point came = Clock::now();
      auto granted = std::async(std::launch::async, [&] {
        EXPECT_TRUE(two.acquire(key, 1, 20s).allowed);
        return Clock::now();
      });
      run(100ms);
      return_units(one, key);
      const Clock::duration took = granted.get() - came;
      return Try{.machine_late = canary.stop(),
                 .is_in_time = [took](Clock::duration room) { return took < 1s + room; }};
    });
  };
  const std::string window = "fixed_window 8/15s anchor=first";
  const auto use_up = [](Limiter& one, const std::string& key) { one.charge(key, 8); };
  const auto block = [](Limiter& one, const std::string& key) { one.block(key, 15s); };
  const auto reset = [](Limiter& one, const std::string& key) { one.reset(key); };
  is_seen("reset", window, use_up, reset);
  is_seen("refund", window, use_up,
          [](Limiter& one, const std::string& key) { one.refund(key, 1); });
  is_seen("unblocked", window, block, reset);
  is_seen("bucket", "token_bucket 8/1m", use_up, reset);
}

// Under load as well, no unit is admitted beyond the limit.
TEST(Policies, DenyAdmitsNothingBeyondTheLimit) {
  RedisServer server;
  const Fault fault{.name = "stopped for 400 ms, on_failure=deny",
                    .bound = Bound{},
                    .least_instead = 21,
                    .instead = Source::kPolicy};
  expect_whole(fault, [&] {
    server.command({"FLUSHALL"});
    Load load(server.url() + "?on_failure=deny");
    return through(load, [&] {
      server.pause();
      run(400ms);
      server.resume();
    });
  });
}

}  // namespace
}  // namespace sluice::faults

#include "stores/redis/script_call.h"

#include <gtest/gtest.h>

#include <chrono>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "testing/script_server.h"

namespace sluice::redis {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr const char* kPermits = "concurrency 9 lease=1m";

const std::vector<const char*> kEachAlgorithmAndPermits = [] {
  std::vector<const char*> expressions(std::begin(kEachAlgorithm), std::end(kEachAlgorithm));
  expressions.push_back(kPermits);
  return expressions;
}();

Request of_permit(Request request, PermitId permit) {
  request.permit = permit;
  return request;
}

class ScriptCallTest : public ScriptTest {
 protected:
  std::string dump(const std::string& key) { return server_->ask({"DUMP", key}); }
  // What the key "a" has after so many takes, one a second; of permits, from 1 on.
  std::string value_after(int takes, const RedisKeys& keys) {
    for (int i = 0; i < takes; ++i) {
      server_->decide(of_permit(keys.request("a"), static_cast<PermitId>(i + 1)),
                      kNow + i * kSecondNs);
    }
    return server_->ask({"GET", keys.name("a")});
  }
};

TEST_F(ScriptCallTest, SaysWhatTimeTheServerHas) {
  const RedisKeys keys("token_bucket 5/1m");
  const Request request = keys.request("a");
  const auto seconds = [&] { return std::stoll(server_->ask({"TIME"})); };
  ScriptRequests call;
  Decision decision;
  call.add({&request, 1}, decision);
  const Instant before = seconds() * kSecondNs;
  server_->run(call);
  EXPECT_GE(call.judged_at(), before);
  EXPECT_LE(call.judged_at(), (seconds() + 1) * kSecondNs);
  EXPECT_EQ(call.judged_at() % 1000, 0);
}

TEST_F(ScriptCallTest, FindsItsWindowByAnyClockOfTheCaller) {
  // The script mends windows that the caller's clock has named; here by far.
  for (const auto* expression :
       {"fixed_window 5/1ns", "fixed_window 5/7h", "fixed_window 5/1w", "fixed_window 5/3s",
        "fixed_window 5/2305843009213693952ns", "sliding_counter 5/3d", "sliding_counter 5/7ms",
        "sliding_window 5/77ms precision=7ms", "sliding_window 5/4611686018427387ns"}) {
    const RedisKeys keys(expression);
    const Request request = keys.request("a", 2);
    for (const Instant guess : {Instant{0}, kNow, kEndOfTime - 1}) {
      server_->ask({"FLUSHALL"});
      ScriptRequests call(kVirtualTime, guess);
      Decision decision;
      call.add({&request, 1}, decision);
      std::string command = call.command();
      // The instant follows the call's number: now the server's clock is to be asked.
      const std::size_t at = command.find("\r\n", command.find("}\r\n$") + 3) + 6;
      command.replace(at, 8, 8, '\xff');
      server_->run(call, command);
      EXPECT_EQ(call.errors()[0], "");
      EXPECT_GT(call.judged_at(), kNow);
      // What it wrote is what belongs to that instant.
      const Decision written = server_->decide(keys.request("a", 0), call.judged_at());
      EXPECT_EQ(written, decision) << expression << " from " << guess;
    }
  }
}

TEST_F(ScriptCallTest, EveryKeyExpiresNeitherTooEarlyNorTooLate) {
  for (const std::string expression : kEachAlgorithm) {
    const RedisKeys keys(expression);
    // What counts does so for a window, in a sliding_window for an eleventh more, and its state is
    // kept for another eleventh; a state may be kept for as long again as it counts, so that it
    // need not be renewed each time.
    const std::int64_t window_ms = expression.ends_with("/1h") ? 3'600'000 : 60'000;
    const std::int64_t most_ms = 2 * window_ms + 3 * window_ms / 11 + 1000;
    // The instants are given, but the server's clock goes on.
    const auto begin = steady_clock::now();
    const auto passed_ms = [&] { return (steady_clock::now() - begin) / milliseconds(1) + 1; };
    for (int i = 0; i < 5; ++i) {
      const Instant now = kNow + i * 20 * kSecondNs;
      const Decision decision = server_->decide(keys.request("a", 3), now);
      if (!decision.allowed) continue;
      const std::int64_t left_ms = lifetime_ms(keys.name("a"));
      const std::int64_t needed_ms = decision.reset_after / milliseconds(1) - i * 20'000;
      EXPECT_GE(left_ms, needed_ms - passed_ms()) << expression;
      EXPECT_GT(left_ms, 0) << expression;
      EXPECT_LE(left_ms, most_ms) << expression;
    }
    const Decision fresh = server_->decide(keys.request("b", 5), kNow);
    const std::int64_t left_ms = lifetime_ms(keys.name("b"));
    EXPECT_GE(left_ms, fresh.reset_after / milliseconds(1) - passed_ms()) << expression;
    EXPECT_LE(left_ms, most_ms) << expression;
  }
}

// The state stays, and its units count for one sub-window more.
TEST_F(ScriptCallTest, KeepsUnitsUntilALimitThatBecomesStrictForgetsThem) {
  const RedisKeys lax("sliding_window 10/1h precision=6m strict=no", "l");
  const RedisKeys strict("sliding_window 10/1h precision=6m", "l");
  constexpr Instant kStart = kNow - kNow % kHourNs;
  const auto begin = steady_clock::now();
  server_->decide(lax.request("a"), kStart);
  // Where the lifetime of the first unit suffices, this one does not renew it.
  server_->decide(lax.request("a", 10), kStart + kHourNs);
  const Decision full = server_->decide(strict.request("a", 0), kStart + kHourNs);
  EXPECT_EQ(full.reset_after, milliseconds(66 * 60'000));
  const std::int64_t left_ms = lifetime_ms(lax.name("a"));
  const auto passed_ms = (steady_clock::now() - begin) / milliseconds(1);
  EXPECT_GE(left_ms, (60 + 66) * 60'000 - passed_ms - 1);
}

TEST_F(ScriptCallTest, LifetimesReachAsFarAsLimitsDo) {
  for (const auto* expression :
       {"token_bucket 1/2305843009213693951ns", "fixed_window 1/2305843009213693951ns",
        "sliding_log 1/2305843009213693951ns", "sliding_window 1/2305843009213693951ns",
        "token_bucket 1/2305843009213693951ns borrow=yes"}) {
    const RedisKeys keys(expression);
    Request request = keys.request("a");
    request.patience_ns = kMaxInt64;
    for (const Instant now : {Instant{0}, kEndOfTime - 1}) {
      server_->ask({"FLUSHALL"});
      const Decision decision = server_->decide(request, now);
      EXPECT_TRUE(decision.allowed) << expression << server_->errors[0];
      server_->decide(request, now);
      EXPECT_GT(lifetime_ms(keys.name("a")), decision.reset_after.count() / 1'000'000 - 10'000);
    }
  }
}

TEST_F(ScriptCallTest, AddsSkewAndKeepsALeastLifetime) {
  const RedisKeys keys("token_bucket 1/1ms");
  server_->options = {.servers = {}, .client_time = true};
  server_->decide(keys.request("a"), kNow);
  EXPECT_GT(lifetime_ms(keys.name("a")), 4'000);
  EXPECT_LE(lifetime_ms(keys.name("a")), 6'090);
}

// An interrupted replay removes nothing.
TEST_F(ScriptCallTest, InVirtualTimeAKeyLivesForADayWhateverItsLimit) {
  server_->options = kVirtualTime;
  for (const char* expression :
       {"token_bucket 1/1ms", "fixed_window 2/52w", "sliding_log 3/30d", "sliding_counter 2/1s",
        "fixed_window 5/1s & token_bucket 1/30d burst=100"}) {
    const RedisKeys keys(expression);
    server_->decide(keys.request("a"), kNow);
    EXPECT_GT(lifetime_ms(keys.name("a")), kDayMs - 5'000) << expression;
    EXPECT_LE(lifetime_ms(keys.name("a")), kDayMs) << expression;
  }
}

TEST_F(ScriptCallTest, DeniedAndPeekedWriteNothing) {
  for (const auto* expression : kEachAlgorithm) {
    const RedisKeys keys(expression);
    EXPECT_TRUE(server_->decide(keys.request("a", 0), kNow).allowed) << expression;
    EXPECT_FALSE(server_->decide(keys.request("a", 501), kNow).allowed) << expression;
    EXPECT_EQ(server_->ask({"DBSIZE"}), "0") << expression;
    server_->decide(keys.request("a", 4), kNow);
    const std::string before = dump(keys.name("a"));
    const auto expires = server_->ask({"PEXPIRETIME", keys.name("a")});
    EXPECT_FALSE(server_->decide(keys.request("a", 500), kNow + kSecondNs).allowed) << expression;
    EXPECT_TRUE(server_->decide(keys.request("a", 0), kNow + kSecondNs).allowed) << expression;
    EXPECT_EQ(dump(keys.name("a")), before) << expression;
    EXPECT_EQ(server_->ask({"PEXPIRETIME", keys.name("a")}), expires) << expression;
    server_->ask({"FLUSHALL"});
  }
}

TEST_F(ScriptCallTest, GivingAllBackAndResettingDeleteTheKey) {
  for (const auto* expression : kEachAlgorithm) {
    const RedisKeys keys(expression);
    for (const Operation operation : {Operation::kRefund, Operation::kReset}) {
      server_->decide(keys.request("a", 3), kNow);
      EXPECT_EQ(server_->ask({"DBSIZE"}), "1") << expression;
      const Decision decision = server_->decide(keys.request("a", 3, operation), kNow);
      EXPECT_EQ(decision.remaining, decision.limit) << expression;
      EXPECT_EQ(decision.reset_after.count(), 0) << expression;
      EXPECT_EQ(server_->ask({"DBSIZE"}), "0") << expression;
    }
  }
}

TEST_F(ScriptCallTest, AnotherTypeFailsAlone) {
  const RedisKeys keys("token_bucket 5/1m");
  const RedisKeys log("sliding_log 500/1m");
  const RedisKeys permits(kPermits);
  for (const RedisKeys* each : {&keys, &log, &permits}) {
    server_->ask({"LPUSH", each->name("list"), "x"});
  }
  const Request requests[] = {
      keys.request("a"),       keys.request("list"),
      keys.request("list", 0), keys.request("list", 1, Operation::kReset),
      log.request("list"),     log.request("list", 1, Operation::kRefund),
      permits.request("list"), keys.request("a", 2),
  };
  const auto decisions = server_->decide(requests, kNow);
  EXPECT_EQ(decisions[0].remaining, 4);
  for (std::size_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
    EXPECT_TRUE(server_->errors[i].starts_with("WRONGTYPE")) << server_->errors[i];
  }
  EXPECT_EQ(decisions[7].remaining, 2);
  EXPECT_EQ(server_->ask({"LLEN", keys.name("list")}), "1");
}

TEST_F(ScriptCallTest, DamagedAndForeignValuesFailAlone) {
  for (const char* expression : kEachAlgorithmAndPermits) {
    const RedisKeys keys(expression);
    const std::string name = keys.name("a");
    const std::string whole = value_after(3, keys);
    for (const std::string& value :
         {std::string("hello"), std::string("1"), whole.substr(0, keys.space().head_bytes() - 1),
          whole.substr(0, whole.size() - 1), whole + "x"}) {
      // A ring's missing slots are noticed when they are needed.
      const bool has_ring = whole.find_first_of("gw") < 12;
      if (has_ring && value.size() + 1 >= whole.size()) {
        server_->ask({"SET", name, value});
        expect_reset_removes(keys);
      } else {
        expect_fails_alone(keys, value, {of_permit(keys.request("a"), 9)}, kNow + 30 * kSecondNs);
      }
    }
    // Another limit's, even one that only a later version knows, is replaced.
    server_->ask({"SET", name, std::string("\xf5\x01q", 3)});
    EXPECT_TRUE(server_->decide(keys.request("a"), kNow).allowed) << server_->errors[0];
  }
}

TEST_F(ScriptCallTest, AnyBytesForAValueHarmNoOtherKey) {
  std::mt19937 random(7);
  for (const char* expression : kEachAlgorithmAndPermits) {
    const RedisKeys keys(expression);
    const bool is_for_permits = lends(keys.limit());
    const std::string whole = value_after(5, keys);
    for (int round = 0; round < 200; ++round) {
      // Every second one within a block.
      std::string value = round % 2 == 0 ? whole : "\xf6" + whole.substr(2, 8) + whole;
      for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
        value[random() % value.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
      }
      server_->ask({"SET", keys.name("a"), value});
      const Request requests[] = {
          keys.request("b", 0), of_permit(keys.request("a"), 9),
          is_for_permits ? of_permit(keys.request("a", 1, Operation::kRenew), 2)
                         : keys.request("a", 4),
          of_permit(keys.request("a", 1, is_for_permits ? Operation::kRelease : Operation::kRefund),
                    3),
          keys.request("b", 0)};
      const auto decisions = server_->decide(requests, kNow + 9 * kSecondNs);
      EXPECT_EQ(decisions[0].source, Source::kStore);
      EXPECT_EQ(decisions[4].source, Source::kStore);
    }
  }
}

TEST_F(ScriptCallTest, AKeyOfAnotherTypeLeavesTheOtherKeysOfItsListUncharged) {
  const RedisKeys user("token_bucket 5/1m", "user");
  const RedisKeys address("sliding_log 3/1m", "address");
  server_->ask({"LPUSH", address.name("list"), "x"});
  const Request bad[] = {user.request("a", 1), address.request("list", 1)};
  EXPECT_EQ(server_->decide_all(bad, kNow).source, Source::kUnavailable);
  EXPECT_EQ(server_->decide(user.request("a", 0), kNow).remaining, 5);
}

}  // namespace
}  // namespace sluice::redis

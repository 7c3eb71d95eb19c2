#include "stores/redis/script_call.h"

#include <gmock/gmock.h>

#include <chrono>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "stores/redis/resp.h"
#include "testing/script_fixture.h"
#include "testing/script_requests.h"

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
  // Runs a call of one request. The store may not have loaded the script yet.
  void run(ScriptRequests& call, const std::string& command) {
    ask({"SCRIPT", "LOAD", std::string(script_text())});
    client_.send(command);
    std::string bytes;
    append_text(bytes, client_.read().text);
    ASSERT_TRUE(call.read(bytes));
    EXPECT_EQ(call.errors()[0], "");
  }
  std::string dump(const std::string& key) { return ask({"DUMP", key}); }
  // What the key "a" has after so many takes, one a second; of permits, from 1 on.
  std::string value_after(int takes, const LimitedKeys& keys) {
    for (int i = 0; i < takes; ++i) {
      const auto permit = static_cast<PermitId>(i) + 1;
      decide(of_permit(keys.request("a"), permit), kNow + i * kSecondNs);
    }
    return value_of(keys);
  }
};

TEST_F(ScriptCallTest, SaysWhatTimeTheServerHas) {
  const LimitedKeys keys = keys_of("token_bucket 5/1m");
  const Request request = keys.request("a");
  const auto seconds = [&] { return std::stoll(ask({"TIME"})); };
  ScriptRequests call;
  Decision decision;
  call.add({&request, 1}, decision);
  const Instant before = seconds() * kSecondNs;
  run(call, call.command());
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
    const LimitedKeys keys = keys_of(expression);
    const Request request = keys.request("a", 2);
    for (const Instant guess : {Instant{0}, kNow, kEndOfTime - 1}) {
      ask({"FLUSHALL"});
      ScriptRequests call({.virtual_time = true}, guess);
      Decision decision;
      call.add({&request, 1}, decision);
      std::string command = call.command();
      // The instant follows the call's number: now the server's clock is to be asked.
      const std::size_t at = command.find("\r\n", command.find("}\r\n$") + 3) + 6;
      command.replace(at, 8, 8, '\xff');
      run(call, command);
      EXPECT_GT(call.judged_at(), kNow);
      // What it wrote is what belongs to that instant.
      const Decision written = decide(keys.request("a", 0), call.judged_at());
      EXPECT_EQ(written, decision) << expression << " from " << guess;
    }
  }
}

TEST_F(ScriptCallTest, EveryKeyExpiresNeitherTooEarlyNorTooLate) {
  for (const std::string expression : kEachAlgorithm) {
    const LimitedKeys keys = keys_of(expression);
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
      const Decision decision = decide(keys.request("a", 3), now);
      if (!decision.allowed) continue;
      const std::int64_t left_ms = lifetime_ms(keys);
      const std::int64_t needed_ms = decision.reset_after / milliseconds(1) - i * 20'000;
      EXPECT_GE(left_ms, needed_ms - passed_ms()) << expression;
      EXPECT_GT(left_ms, 0) << expression;
      EXPECT_LE(left_ms, most_ms) << expression;
    }
    const Decision fresh = decide(keys.request("b", 5));
    const std::int64_t left_ms = lifetime_ms(keys, "b");
    EXPECT_GE(left_ms, fresh.reset_after / milliseconds(1) - passed_ms()) << expression;
    EXPECT_LE(left_ms, most_ms) << expression;
  }
}

// The state stays, and its units count for one sub-window more.
TEST_F(ScriptCallTest, KeepsUnitsUntilALimitThatBecomesStrictForgetsThem) {
  const LimitedKeys lax = keys_of("sliding_window 10/1h precision=6m strict=no", "l");
  const LimitedKeys strict = keys_of("sliding_window 10/1h precision=6m", "l");
  constexpr Instant kStart = kNow - kNow % kHourNs;
  const auto begin = steady_clock::now();
  decide(lax.request("a"), kStart);
  // Where the lifetime of the first unit suffices, this one does not renew it.
  decide(lax.request("a", 10), kStart + kHourNs);
  const Decision full = decide(strict.request("a", 0), kStart + kHourNs);
  EXPECT_EQ(full.reset_after, milliseconds(66 * 60'000));
  const std::int64_t left_ms = lifetime_ms(lax);
  const auto passed_ms = (steady_clock::now() - begin) / milliseconds(1);
  EXPECT_GE(left_ms, (60 + 66) * 60'000 - passed_ms - 1);
}

TEST_F(ScriptCallTest, LifetimesReachAsFarAsLimitsDo) {
  for (const auto* expression :
       {"token_bucket 1/2305843009213693951ns", "fixed_window 1/2305843009213693951ns",
        "sliding_log 1/2305843009213693951ns", "sliding_window 1/2305843009213693951ns",
        "token_bucket 1/2305843009213693951ns borrow=yes"}) {
    const LimitedKeys keys = keys_of(expression);
    Request request = keys.request("a");
    request.patience_ns = kMaxInt64;
    for (const Instant now : {Instant{0}, kEndOfTime - 1}) {
      ask({"FLUSHALL"});
      const Decision decision = decide(request, now);
      EXPECT_TRUE(decision.allowed) << expression << error_;
      decide(request, now);
      EXPECT_GT(lifetime_ms(keys), decision.reset_after.count() / 1'000'000 - 10'000);
    }
  }
}

TEST_F(ScriptCallTest, AddsSkewAndKeepsALeastLifetime) {
  use({.client_time = true});
  const LimitedKeys keys = keys_of("token_bucket 1/1ms");
  decide(keys.request("a"));
  EXPECT_GT(lifetime_ms(keys), 4'000);
  EXPECT_LE(lifetime_ms(keys), 6'090);
}

// An interrupted replay removes nothing.
TEST_F(ScriptCallTest, InVirtualTimeAKeyLivesForADayWhateverItsLimit) {
  use({.virtual_time = true});
  for (const char* expression :
       {"token_bucket 1/1ms", "fixed_window 2/52w", "sliding_log 3/30d", "sliding_counter 2/1s",
        "fixed_window 5/1s & token_bucket 1/30d burst=100"}) {
    const LimitedKeys keys = keys_of(expression);
    decide(keys.request("a"));
    EXPECT_GT(lifetime_ms(keys), kDayMs - 5'000) << expression;
    EXPECT_LE(lifetime_ms(keys), kDayMs) << expression;
  }
}

TEST_F(ScriptCallTest, DeniedAndPeekedWriteNothing) {
  for (const auto* expression : kEachAlgorithm) {
    const LimitedKeys keys = keys_of(expression);
    EXPECT_TRUE(decide(keys.request("a", 0)).allowed) << expression;
    EXPECT_FALSE(decide(keys.request("a", 501)).allowed) << expression;
    EXPECT_EQ(ask({"DBSIZE"}), "0") << expression;
    decide(keys.request("a", 4));
    const std::string before = dump(name_of(keys));
    const auto expires = ask({"PEXPIRETIME", name_of(keys)});
    EXPECT_FALSE(decide(keys.request("a", 500), kNow + kSecondNs).allowed) << expression;
    EXPECT_TRUE(decide(keys.request("a", 0), kNow + kSecondNs).allowed) << expression;
    EXPECT_EQ(dump(name_of(keys)), before) << expression;
    EXPECT_EQ(ask({"PEXPIRETIME", name_of(keys)}), expires) << expression;
    ask({"FLUSHALL"});
  }
}

TEST_F(ScriptCallTest, GivingAllBackAndResettingDeleteTheKey) {
  for (const auto* expression : kEachAlgorithm) {
    const LimitedKeys keys = keys_of(expression);
    for (const Operation operation : {Operation::kRefund, Operation::kReset}) {
      decide(keys.request("a", 3));
      EXPECT_EQ(ask({"DBSIZE"}), "1") << expression;
      const Decision decision = decide(keys.request("a", 3, operation));
      EXPECT_EQ(decision.remaining, decision.limit) << expression;
      EXPECT_EQ(decision.reset_after.count(), 0) << expression;
      EXPECT_EQ(ask({"DBSIZE"}), "0") << expression;
    }
  }
}

TEST_F(ScriptCallTest, AnotherTypeFailsAlone) {
  const LimitedKeys keys = keys_of("token_bucket 5/1m");
  const LimitedKeys log = keys_of("sliding_log 500/1m");
  const LimitedKeys permits = keys_of(kPermits);
  for (const LimitedKeys* each : {&keys, &log, &permits}) {
    ask({"LPUSH", name_of(*each, "list"), "x"});
  }
  const Request requests[] = {
      keys.request("a"),       keys.request("list"),
      keys.request("list", 0), keys.request("list", 1, Operation::kReset),
      log.request("list"),     log.request("list", 1, Operation::kRefund),
      permits.request("list"), keys.request("a", 2),
  };
  const auto decisions = decide(requests);
  EXPECT_EQ(decisions[0].remaining, 4);
  for (std::size_t i = 1; i <= 6; ++i) {
    EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
    decide(requests[i]);
    EXPECT_THAT(error_, testing::HasSubstr(": WRONGTYPE ")) << i;
  }
  EXPECT_EQ(decisions[7].remaining, 2);
  EXPECT_EQ(ask({"LLEN", name_of(keys, "list")}), "1");
}

TEST_F(ScriptCallTest, DamagedAndForeignValuesFailAlone) {
  for (const char* expression : kEachAlgorithmAndPermits) {
    const LimitedKeys keys = keys_of(expression);
    const std::string name = name_of(keys);
    const std::string whole = value_after(3, keys);
    for (const std::string& value :
         {std::string("hello"), std::string("1"), whole.substr(0, head_bytes(keys) - 1),
          whole.substr(0, whole.size() - 1), whole + "x"}) {
      // A ring's missing slots are noticed when they are needed.
      const bool has_ring = whole.find_first_of("gw") < 12;
      if (has_ring && value.size() + 1 >= whole.size()) {
        ask({"SET", name, value});
        expect_reset_removes(keys);
      } else {
        expect_fails_alone(keys, value, {of_permit(keys.request("a"), 9)}, kNow + 30 * kSecondNs);
      }
    }
    // Another limit's, even one that only a later version knows, is replaced.
    ask({"SET", name, std::string("\xf5\x01q", 3)});
    EXPECT_TRUE(decide(keys.request("a")).allowed) << error_;
  }
}

TEST_F(ScriptCallTest, AnyBytesForAValueHarmNoOtherKey) {
  std::mt19937 random(7);
  for (const char* expression : kEachAlgorithmAndPermits) {
    const LimitedKeys keys = keys_of(expression);
    const bool is_for_permits = lends(keys.limit());
    const std::string whole = value_after(5, keys);
    for (int round = 0; round < 200; ++round) {
      std::string value = whole;
      for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
        value[random() % value.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
      }
      ask({"SET", name_of(keys), value});
      const Request requests[] = {
          keys.request("b", 0), of_permit(keys.request("a"), 9),
          is_for_permits ? of_permit(keys.request("a", 1, Operation::kRenew), 2)
                         : keys.request("a", 4),
          of_permit(keys.request("a", 1, is_for_permits ? Operation::kRelease : Operation::kRefund),
                    3),
          keys.request("b", 0)};
      const auto decisions = decide(requests, kNow + 9 * kSecondNs);
      EXPECT_EQ(decisions[0].source, Source::kStore);
      EXPECT_EQ(decisions[4].source, Source::kStore);
    }
  }
}

TEST_F(ScriptCallTest, AKeyOfAnotherTypeLeavesTheOtherKeysOfItsListUncharged) {
  const LimitedKeys user = keys_of("token_bucket 5/1m", "user");
  const LimitedKeys address = keys_of("sliding_log 3/1m", "address");
  ask({"LPUSH", name_of(address, "list"), "x"});
  const Request bad[] = {user.request("a", 1), address.request("list", 1)};
  EXPECT_EQ(decide_all(bad).source, Source::kUnavailable);
  EXPECT_EQ(decide(user.request("a", 0)).remaining, 5);
}

}  // namespace
}  // namespace sluice::redis

// Permits as the script keeps them.

#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <random>

#include "core/permits.h"
#include "stores/redis/script_under_test.h"

namespace sluice::redis {
namespace {

class ScriptPermits : public ScriptTest {
 protected:
  static Request request(const RedisKeys& keys, Operation operation, PermitId permit) {
    Request asked = keys.request("a", 1, operation);
    asked.permit = permit;
    return asked;
  }
  Decision ask(const RedisKeys& keys, Operation operation, PermitId permit, Instant now) {
    const Decision decision = server_->decide(request(keys, operation, permit), now);
    EXPECT_EQ(server_->faults[0], "");
    return decision;
  }
  Decision acquire(const RedisKeys& keys, PermitId permit, Instant now) {
    return ask(keys, Operation::kTake, permit, now);
  }
  // As they stand in the value.
  std::vector<PermitEntry> entries(const RedisKeys& keys) {
    const std::string value = server_->ask({"GET", keys.name("a")});
    std::vector<PermitEntry> entries(value.size() / sizeof(PermitEntry));
    if (!entries.empty()) std::memcpy(entries.data(), value.data() + 11, value.size() - 11);
    return entries;
  }
};

TEST_F(ScriptPermits, AreHeldUntilTheyAreGivenBackOrLapse) {
  const RedisKeys keys("concurrency 2 lease=10s");
  EXPECT_EQ(acquire(keys, 1, kNow).remaining, 1);
  EXPECT_EQ(acquire(keys, 2, kNow + kSecondNs).remaining, 0);
  const Decision denied = acquire(keys, 3, kNow + 2 * kSecondNs);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after.count(), 8 * kSecondNs);
  EXPECT_EQ(denied.reset_after.count(), 9 * kSecondNs);
  EXPECT_TRUE(ask(keys, Operation::kRenew, 1, kNow + 3 * kSecondNs).allowed);
  EXPECT_EQ(entries(keys),
            (std::vector<PermitEntry>{{kNow + 11 * kSecondNs, 2}, {kNow + 13 * kSecondNs, 1}}));
  EXPECT_LE(lifetime_ms(keys.name("a")), 10'010);
  EXPECT_GT(lifetime_ms(keys.name("a")), 9'000);
  const Decision given = ask(keys, Operation::kRelease, 2, kNow + 4 * kSecondNs);
  EXPECT_TRUE(given.allowed);
  EXPECT_EQ(given.remaining, 1);
  EXPECT_FALSE(ask(keys, Operation::kRelease, 2, kNow + 4 * kSecondNs).allowed);
  EXPECT_EQ(ask(keys, Operation::kRenew, 2, kNow + 4 * kSecondNs).retry_after, kNever);
  // The other one has lapsed by then.
  EXPECT_FALSE(ask(keys, Operation::kRenew, 1, kNow + 13 * kSecondNs).allowed);
  EXPECT_EQ(acquire(keys, 4, kNow + 13 * kSecondNs).remaining, 1);
  EXPECT_TRUE(ask(keys, Operation::kRelease, 4, kNow + 13 * kSecondNs).allowed);
  EXPECT_EQ(server_->ask({"DBSIZE"}), "0");
}

TEST_F(ScriptPermits, DeniedAndPeekedChangeNothing) {
  const RedisKeys keys("concurrency 1 lease=10s");
  EXPECT_EQ(server_->decide(keys.request("a", 0), kNow).remaining, 1);
  EXPECT_FALSE(ask(keys, Operation::kRelease, 1, kNow).allowed);
  EXPECT_EQ(server_->decide(keys.request("a", 2), kNow).retry_after, kNever);
  EXPECT_EQ(server_->ask({"DBSIZE"}), "0");
  acquire(keys, 1, kNow);
  const std::string before = server_->ask({"DUMP", keys.name("a")});
  EXPECT_FALSE(acquire(keys, 2, kNow).allowed);
  EXPECT_FALSE(ask(keys, Operation::kRenew, 2, kNow).allowed);
  EXPECT_EQ(server_->decide(keys.request("a", 0), kNow + kSecondNs).remaining, 0);
  EXPECT_EQ(server_->ask({"DUMP", keys.name("a")}), before);
}

TEST_F(ScriptPermits, StandInTheOrderInWhichTheyLapse) {
  const RedisKeys longer("concurrency 200 lease=1m", "l");
  const RedisKeys shorter("concurrency 100 lease=1s", "l");
  std::mt19937_64 random(5);
  std::vector<PermitId> ids;
  for (int i = 0; i < 150; ++i) {
    ids.push_back(random());
    const bool may = i < 100;
    acquire(may && random() % 2 == 0 ? shorter : longer, ids.back(),
            kNow - static_cast<Instant>(random() % 1000));
  }
  const auto by_lapse = [](const PermitEntry& a, const PermitEntry& b) {
    return a.lapses_ns < b.lapses_ns;
  };
  auto held = entries(longer);
  EXPECT_EQ(held.size(), 150U);
  EXPECT_TRUE(std::is_sorted(held.begin(), held.end(), by_lapse));
  // More are held than the lower limit allows: there is room once enough have lapsed.
  const Decision denied = acquire(shorter, 1, kNow);
  EXPECT_EQ(denied.retry_after.count(), held[50].lapses_ns - kNow);
  for (const PermitId id : ids) EXPECT_TRUE(ask(longer, Operation::kRelease, id, kNow).allowed);
  EXPECT_EQ(server_->ask({"DBSIZE"}), "0");
}

TEST_F(ScriptPermits, AreFoundByTheirWholeNameAlone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  // The end of one and the beginning of the next look like a third.
  acquire(keys, 0x1122'3344'0000'0000, kNow);
  acquire(keys, 7, kNow + 1);
  std::string value = server_->ask({"GET", keys.name("a")});
  for (const std::size_t at : {value.size() - 20, value.size() - 16, value.size() - 12}) {
    PermitId across = 0;
    std::memcpy(&across, value.data() + at, sizeof across);
    EXPECT_FALSE(ask(keys, Operation::kRelease, across, kNow + 1).allowed) << at;
  }
  EXPECT_EQ(entries(keys).size(), 2U);
}

TEST_F(ScriptPermits, AreBlockedAsAllElse) {
  const RedisKeys keys("concurrency 3 lease=10s");
  acquire(keys, 1, kNow);
  Request block = request(keys, Operation::kBlock, 0);
  block.duration_ns = 30 * kSecondNs;
  EXPECT_TRUE(server_->decide(block, kNow).allowed);
  EXPECT_GT(lifetime_ms(keys.name("a")), 29'000);
  const Decision denied = acquire(keys, 2, kNow);
  EXPECT_FALSE(denied.allowed);
  EXPECT_EQ(denied.retry_after.count(), 30 * kSecondNs);
  EXPECT_TRUE(ask(keys, Operation::kRenew, 1, kNow + kSecondNs).allowed);
  EXPECT_TRUE(ask(keys, Operation::kRelease, 1, kNow + kSecondNs).allowed);
  EXPECT_EQ(ask(keys, Operation::kRelease, 1, kNow + kSecondNs).reset_after.count(),
            29 * kSecondNs);
  EXPECT_FALSE(acquire(keys, 2, kNow + 29 * kSecondNs).allowed);
  EXPECT_EQ(acquire(keys, 2, kNow + 30 * kSecondNs).remaining, 2);
  EXPECT_EQ(ask(keys, Operation::kReset, 0, kNow).remaining, 3);
  EXPECT_EQ(server_->ask({"DBSIZE"}), "0");
}

TEST_F(ScriptPermits, AsManyAsThereMayBeAreKept) {
  const RedisKeys keys("concurrency 65536 lease=1h");
  acquire(keys, 1, kNow);
  // All but one of them as if they had been acquired one by one.
  std::string value = server_->ask({"GET", keys.name("a")}).substr(0, 11);
  for (std::int64_t i = 0; i < 65'535; ++i) {
    const PermitEntry entry{kNow + i + 1, static_cast<PermitId>(i + 10)};
    value.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  server_->ask({"SET", keys.name("a"), value});
  EXPECT_EQ(acquire(keys, 2, kNow).remaining, 0);
  EXPECT_EQ(acquire(keys, 3, kNow).retry_after.count(), 1);
  EXPECT_TRUE(ask(keys, Operation::kRelease, 40'000, kNow).allowed);
  EXPECT_TRUE(ask(keys, Operation::kRenew, 50'000, kNow).allowed);
  EXPECT_EQ(entries(keys).size(), 65'535U);
  EXPECT_EQ(acquire(keys, 3, kNow + 60'000).remaining, 65'536 - (5'535 + 3));
}

TEST_F(ScriptPermits, DamagedAndForeignValuesFailAlone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  for (PermitId id = 1; id <= 3; ++id) acquire(keys, id, kNow);
  const std::string whole = server_->ask({"GET", keys.name("a")});
  for (const auto& value :
       {whole + "x", whole.substr(0, 12), whole.substr(0, 10), std::string("1")}) {
    server_->ask({"SET", keys.name("a"), value});
    const Request requests[] = {keys.request("b", 0), request(keys, Operation::kTake, 9),
                                request(keys, Operation::kRelease, 1),
                                request(keys, Operation::kReset, 1), keys.request("b", 0)};
    const auto decisions = server_->decide(requests, kNow);
    for (const std::size_t i : {1U, 2U, 3U}) {
      EXPECT_EQ(decisions[i].source, Source::kUnavailable) << value.size() << ' ' << i;
    }
    EXPECT_EQ(decisions[4].remaining, 9);
    EXPECT_EQ(server_->ask({"GET", keys.name("a")}), value);
  }
  server_->ask({"DEL", keys.name("a")});
  server_->ask({"LPUSH", keys.name("a"), "x"});
  EXPECT_EQ(server_->decide(request(keys, Operation::kTake, 9), kNow).source, Source::kUnavailable);
  EXPECT_TRUE(server_->faults[0].starts_with("WRONGTYPE")) << server_->faults[0];
}

TEST_F(ScriptPermits, AnyBytesForPermitsHarmNobodyElse) {
  const RedisKeys keys("concurrency 9 lease=10s");
  for (PermitId id = 1; id <= 5; ++id) acquire(keys, id, kNow + static_cast<Instant>(id));
  const std::string whole = server_->ask({"GET", keys.name("a")});
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string value = round % 2 == 0 ? whole : "\xf6" + whole.substr(11, 8) + whole;
    for (int changes = 1 + static_cast<int>(random() % 3); changes > 0; --changes) {
      value[random() % value.size()] = static_cast<char>(random() % 3 == 0 ? 255 : random());
    }
    server_->ask({"SET", keys.name("a"), value});
    const Request requests[] = {keys.request("b", 0), request(keys, Operation::kTake, 9),
                                request(keys, Operation::kRenew, 2),
                                request(keys, Operation::kRelease, 3), keys.request("b", 0)};
    const auto decisions = server_->decide(requests, kNow + 9);
    EXPECT_EQ(decisions[0].source, Source::kStore);
    EXPECT_EQ(decisions[4].source, Source::kStore);
  }
}

TEST_F(ScriptPermits, AreForgottenByALimitOfAnotherKind) {
  const RedisKeys permits("concurrency 9 lease=10s", "l");
  const RedisKeys log("sliding_log 9/1m", "l");
  acquire(permits, 1, kNow);
  EXPECT_EQ(server_->decide(log.request("a"), kNow).remaining, 8) << server_->faults[0];
  EXPECT_EQ(acquire(permits, 1, kNow).remaining, 8);
}

TEST_F(ScriptPermits, AServerWithoutMemoryGivesNone) {
  const RedisKeys keys("concurrency 9 lease=10s");
  acquire(keys, 1, kNow);
  server_->ask({"CONFIG", "SET", "maxmemory", "1"});
  const Decision decision = server_->decide(request(keys, Operation::kTake, 2), kNow);
  server_->ask({"CONFIG", "SET", "maxmemory", "0"});
  EXPECT_EQ(decision.source, Source::kUnavailable);
  EXPECT_TRUE(server_->faults[0].starts_with("OOM")) << server_->faults[0];
  EXPECT_EQ(entries(keys).size(), 1U);
}

}  // namespace
}  // namespace sluice::redis

// What the script does besides taking and refunding: charges, takes of what there is, blocks,
// permits.

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "core/permits.h"
#include "testing/script_server.h"

namespace sluice::redis {
namespace {

class ScriptOperations : public ScriptTest {
 protected:
  Decision decide(const RedisKeys& keys, Operation operation, std::int64_t cost, Instant now) {
    return server_->decide(keys.request("a", cost, operation), now);
  }
  Decision block(const RedisKeys& keys, std::int64_t duration_ns, Instant now) {
    Request request = keys.request("a", 1, Operation::kBlock);
    request.duration_ns = duration_ns;
    return server_->decide(request, now);
  }
};

TEST_F(ScriptOperations, ABlockOutlastsTheStateAndTheStateTheBlock) {
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const RedisKeys keys(expression);
    // A key that was never seen, and one whose state lasts longer than the block.
    EXPECT_EQ(block(keys, 5 * kSecondNs, kNow).reset_after.count(), 5 * kSecondNs);
    EXPECT_GT(lifetime_ms(keys.name("a")), 4'000);
    EXPECT_LE(lifetime_ms(keys.name("a")), 5'010);
    EXPECT_TRUE(decide(keys, Operation::kCharge, 9, kNow).allowed);
    const std::int64_t state_ms =
        decide(keys, Operation::kTake, 0, kNow).reset_after.count() / 1'000'000;
    EXPECT_GT(state_ms, 5'000);
    EXPECT_GT(lifetime_ms(keys.name("a")), state_ms - 1'000);
    // A shorter one changes nothing; a longer one does, and the state is still there.
    EXPECT_EQ(block(keys, 1, kNow).retry_after.count(), 0);
    EXPECT_GE(decide(keys, Operation::kTake, 1, kNow).retry_after.count(), 5 * kSecondNs);
    block(keys, 7200 * kSecondNs, kNow);
    EXPECT_GT(lifetime_ms(keys.name("a")), 7'199'000);
    const Decision denied = decide(keys, Operation::kTake, 1, kNow);
    EXPECT_EQ(denied.retry_after.count(), 7200 * kSecondNs);
    EXPECT_EQ(denied.reset_after.count(), 7200 * kSecondNs);
    server_->ask({"FLUSHALL"});
  }
}

// As in memory, which forgets the key as a whole where the limit becomes another.
TEST_F(ScriptOperations, ABlockGoesWithAValueFromWhichTheLimitCannotGoOn) {
  const RedisKeys bucket("token_bucket 7/1h", "l");
  for (const auto* expression : {"fixed_window 5/1m", "sliding_log 5/1m", "sliding_log 500/1m"}) {
    SCOPED_TRACE(expression);
    const RedisKeys before(expression, "l");
    decide(before, Operation::kTake, 1, kNow);
    block(before, 10 * kSecondNs, kNow);
    const std::string blocked = server_->ask({"GET", before.name("a")});
    // A peek, and a refund of nothing, by the other limit leave the block to its own limit.
    EXPECT_EQ(decide(bucket, Operation::kTake, 0, kNow).remaining, 7) << server_->errors[0];
    EXPECT_EQ(decide(bucket, Operation::kRefund, 1, kNow).remaining, 7) << server_->errors[0];
    EXPECT_EQ(server_->ask({"GET", before.name("a")}), blocked);
    EXPECT_FALSE(decide(before, Operation::kTake, 1, kNow).allowed);
    EXPECT_EQ(decide(bucket, Operation::kTake, 1, kNow).remaining, 6) << server_->errors[0];
    EXPECT_EQ(server_->ask({"GET", before.name("a")})[0], '\xf5');
    EXPECT_TRUE(decide(before, Operation::kTake, 1, kNow).allowed);
    // A block that is asked for lasts no longer than it says, and is of the limit that asked for
    // it, though it is around nothing.
    server_->ask({"SET", before.name("a"), blocked});
    EXPECT_EQ(block(bucket, kSecondNs, kNow).reset_after.count(), kSecondNs);
    EXPECT_EQ(decide(bucket, Operation::kTake, 1, kNow).retry_after.count(), kSecondNs);
    EXPECT_EQ(decide(bucket, Operation::kRefund, 1, kNow).remaining, 0) << server_->errors[0];
    EXPECT_TRUE(decide(bucket, Operation::kTake, 0, kNow + kSecondNs).allowed);
    EXPECT_TRUE(decide(before, Operation::kTake, 1, kNow).allowed) << server_->errors[0];
    EXPECT_EQ(server_->ask({"GET", before.name("a")})[0], '\xf5');
    server_->ask({"FLUSHALL"});
  }
}

TEST_F(ScriptOperations, DamagedBlocksFailAlone) {
  for (const auto* expression : kEachAlgorithm) {
    const RedisKeys keys(expression);
    decide(keys, Operation::kTake, 2, kNow);
    block(keys, 5 * kSecondNs, kNow);
    const std::string whole = server_->ask({"GET", keys.name("a")});
    std::string beyond = whole;
    beyond[8] = '\xff';
    for (const auto& value :
         {whole.substr(0, 1), whole.substr(0, 8), "\xf6" + whole, beyond, whole + "x",
          whole.substr(0, 9) + "x", whole.substr(0, whole.size() - 1)}) {
      expect_fails_alone(keys, value,
                         {keys.request("a"), keys.request("a", 1, Operation::kCharge)});
    }
  }
}

TEST_F(ScriptOperations, AServerWithoutMemoryRefusesWhatWrites) {
  const RedisKeys other("fixed_window 5/1m", "other");
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const RedisKeys keys(expression);
    decide(keys, Operation::kTake, 2, kNow);
    server_->decide(keys.request("blocked"), kNow);
    Request block = keys.request("blocked", 1, Operation::kBlock);
    block.duration_ns = 5 * kSecondNs;
    server_->decide(block, kNow);
    const std::string before = server_->ask({"DUMP", keys.name("blocked")});
    server_->ask({"CONFIG", "SET", "maxmemory", "1"});
    Request new_block = keys.request("a", 1, Operation::kBlock);
    new_block.duration_ns = kSecondNs;
    // Of these, the first and the last two write nothing.
    const Request requests[] = {keys.request("a", 0),
                                keys.request("a"),
                                keys.request("new"),
                                keys.request("a", 3, Operation::kTakeUpTo),
                                new_block,
                                block,
                                keys.request("blocked", 1, Operation::kCharge),
                                keys.request("a", 501),
                                keys.request("a", 0)};
    const auto decisions = server_->decide(requests, kNow);
    for (const std::size_t i : {0U, 7U, 8U}) EXPECT_EQ(decisions[i].source, Source::kStore) << i;
    for (std::size_t i = 1; i <= 6; ++i) {
      EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
      EXPECT_TRUE(server_->errors[i].starts_with("OOM")) << server_->errors[i];
    }
    const Request both[] = {other.request("x"), keys.request("a")};
    EXPECT_EQ(server_->decide_all(both, kNow).source, Source::kUnavailable);
    EXPECT_TRUE(server_->errors[0].starts_with("OOM")) << server_->errors[0];
    server_->ask({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(decisions[8].remaining, decisions[0].remaining);
    EXPECT_EQ(decide(keys, Operation::kTake, 0, kNow).remaining, decisions[0].remaining);
    EXPECT_EQ(server_->ask({"DUMP", keys.name("blocked")}), before);
    EXPECT_EQ(server_->ask({"DBSIZE"}), "2");
    server_->ask({"FLUSHALL"});
  }
}

// Where clocks may be apart, what is over is kept for those that are behind: not for ever.
TEST_F(ScriptOperations, ARefundLeavesABlockThatOutlastsTheStateAsItIs) {
  server_->options = {.servers = {}, .client_time = true};
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const RedisKeys keys(expression);
    decide(keys, Operation::kTake, 2, kNow);
    block(keys, 3'600 * kSecondNs, kNow);
    const Instant long_after = kNow + 1'800 * kSecondNs;
    EXPECT_TRUE(decide(keys, Operation::kRefund, 1, long_after).allowed);
    EXPECT_EQ(server_->errors[0], "");
    EXPECT_EQ(decide(keys, Operation::kTake, 1, long_after).retry_after.count(), 1'800 * kSecondNs);
    EXPECT_GT(lifetime_ms(keys.name("a")), 1'000'000);
    // Nor does one that comes after the block leave anything for good.
    EXPECT_TRUE(decide(keys, Operation::kRefund, 1, kNow + 3'600 * kSecondNs).allowed);
    EXPECT_EQ(server_->errors[0], "");
    EXPECT_NE(server_->ask({"PTTL", keys.name("a")}), "-1");
    server_->ask({"FLUSHALL"});
  }
}

TEST_F(ScriptOperations, ChargesToALogHaveNoMoreThanSoManyEntries) {
  const RedisKeys keys("sliding_log 5/1h");
  const Request charge = keys.request("a", 1, Operation::kCharge);
  // One instant is one entry, and one call.
  const std::int64_t count = most_entries(5) + 50;
  for (std::int64_t i = 0; i < count; ++i) server_->decide(charge, kNow + i);
  EXPECT_EQ(server_->errors[0], "");
  EXPECT_LE(std::stol(server_->ask({"STRLEN", keys.name("a")})), 16 * most_entries(5) + 100);
  // All of them count, the last ones from the last on.
  const Instant now = kNow + count;
  EXPECT_EQ(decide(keys, Operation::kRefund, count - 5, now).remaining, 0);
  EXPECT_EQ(decide(keys, Operation::kRefund, 1, now).remaining, 1);
}

// A count may be so large that the estimate is rounded to whole units.
TEST_F(ScriptOperations, TakesAsMuchAsARoundedEstimateAdmits) {
  constexpr Instant kStart = kNow - kNow % (10 * kHourNs);
  for (const std::string count : {"9007199254740990", "9007199254740991", "4503599627370497"}) {
    for (const std::string other : {"", " & token_bucket 9007199254740991/1h"}) {
      for (Instant elapsed = 10; elapsed < 20; ++elapsed) {  // Hours.
        for (const std::int64_t before : {1, 2, 3}) {
          SCOPED_TRACE(testing::Message() << count << other << " " << before << " " << elapsed);
          server_->ask({"FLUSHALL"});
          const RedisKeys keys("sliding_counter " + count + "/10h" + other);
          decide(keys, Operation::kTake, before, kStart);
          const Instant now = kStart + elapsed * kHourNs;
          const std::int64_t there = decide(keys, Operation::kTake, 0, now).remaining;
          const Decision decision = decide(keys, Operation::kTakeUpTo, kMaxInt64, now);
          ASSERT_EQ(server_->errors[0], "");
          ASSERT_EQ(decision.taken, there);
          ASSERT_EQ(decision.remaining, decide(keys, Operation::kTake, 0, now).remaining);
        }
      }
    }
  }
}

class ScriptPermits : public ScriptTest {
 protected:
  Decision ask(const RedisKeys& keys, Operation operation, PermitId permit, Instant now) {
    Request asked = keys.request("a", 1, operation);
    asked.permit = permit;
    const Decision decision = server_->decide(asked, now);
    EXPECT_EQ(server_->errors[0], "");
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

}  // namespace
}  // namespace sluice::redis

// What the script does besides taking and refunding: charges, takes of what there is, blocks,
// permits.

#include <gmock/gmock.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "core/permits.h"
#include "testing/script_fixture.h"

namespace sluice::redis {
namespace {

class ScriptOperations : public ScriptTest {
 protected:
  using ScriptTest::decide;
  Decision decide(const LimitedKeys& keys, Operation operation, std::int64_t cost, Instant now) {
    return decide(keys.request("a", cost, operation), now);
  }
  Decision block(const LimitedKeys& keys, std::int64_t duration_ns, Instant now) {
    Request request = keys.request("a", 1, Operation::kBlock);
    request.duration_ns = duration_ns;
    return decide(request, now);
  }
};

TEST_F(ScriptOperations, ABlockOutlastsTheStateAndTheStateTheBlock) {
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const LimitedKeys keys = keys_of(expression);
    // A key that was never seen, and one whose state lasts longer than the block.
    EXPECT_EQ(block(keys, 5 * kSecondNs, kNow).reset_after.count(), 5 * kSecondNs);
    EXPECT_GT(lifetime_ms(keys), 4'000);
    EXPECT_LE(lifetime_ms(keys), 6'100);
    EXPECT_TRUE(decide(keys, Operation::kCharge, 9, kNow).allowed);
    const std::int64_t state_ms =
        decide(keys, Operation::kTake, 0, kNow).reset_after.count() / 1'000'000;
    EXPECT_GT(state_ms, 5'000);
    EXPECT_GT(lifetime_ms(keys), state_ms - 1'000);
    // A shorter one changes nothing; a longer one does, and the state is still there.
    EXPECT_EQ(block(keys, 1, kNow).retry_after.count(), 0);
    EXPECT_GE(decide(keys, Operation::kTake, 1, kNow).retry_after.count(), 5 * kSecondNs);
    const Decision over = decide(keys, Operation::kTake, 0, kNow + 6 * kSecondNs);
    EXPECT_EQ(over.remaining, std::max<std::int64_t>(0, over.limit - 9));
    block(keys, 7200 * kSecondNs, kNow);
    EXPECT_GT(lifetime_ms(keys), 7'199'000);
    const Decision denied = decide(keys, Operation::kTake, 1, kNow);
    EXPECT_EQ(denied.retry_after.count(), 7200 * kSecondNs);
    EXPECT_EQ(denied.reset_after.count(), 7200 * kSecondNs);
    ask({"FLUSHALL"});
  }
}

// As in memory, which forgets the key as a whole where the limit becomes another.
TEST_F(ScriptOperations, ABlockGoesWithAValueFromWhichTheLimitCannotGoOn) {
  // Of another process: two limits of one name and of different kinds cannot be in use in one.
  const std::unique_ptr<RedisStore> other = open();
  const LimitedKeys bucket(*other, "token_bucket 7/1h", "l");
  for (const auto* expression : {"fixed_window 5/1m", "sliding_log 5/1m", "sliding_log 500/1m"}) {
    SCOPED_TRACE(expression);
    const LimitedKeys before = keys_of(expression, "l");
    decide(before, Operation::kTake, 1, kNow);
    block(before, 10 * kSecondNs, kNow);
    const std::string blocked = value_of(before);
    // A peek, and a refund of nothing, by the other limit leave the block to its own limit.
    EXPECT_EQ(decide(bucket, Operation::kTake, 0, kNow).remaining, 7) << error_;
    EXPECT_EQ(decide(bucket, Operation::kRefund, 1, kNow).remaining, 7) << error_;
    EXPECT_EQ(value_of(before), blocked);
    EXPECT_FALSE(decide(before, Operation::kTake, 1, kNow).allowed);
    EXPECT_EQ(decide(bucket, Operation::kTake, 1, kNow).remaining, 6) << error_;
    EXPECT_EQ(value_of(before)[0], '\xf5');
    EXPECT_TRUE(decide(before, Operation::kTake, 1, kNow).allowed);
    // A block that is asked for lasts no longer than it says, and is of the limit that asked for
    // it, though it is around nothing.
    ask({"SET", name_of(before), blocked});
    EXPECT_EQ(block(bucket, kSecondNs, kNow).reset_after.count(), kSecondNs);
    EXPECT_EQ(decide(bucket, Operation::kTake, 1, kNow).retry_after.count(), kSecondNs);
    EXPECT_EQ(decide(bucket, Operation::kRefund, 1, kNow).remaining, 0) << error_;
    EXPECT_TRUE(decide(bucket, Operation::kTake, 0, kNow + kSecondNs).allowed);
    EXPECT_TRUE(decide(before, Operation::kTake, 1, kNow).allowed) << error_;
    EXPECT_EQ(value_of(before)[0], '\xf5');
    ask({"FLUSHALL"});
  }
}

TEST_F(ScriptOperations, DamagedBlocksFailAlone) {
  for (const auto* expression : kEachAlgorithm) {
    const LimitedKeys keys = keys_of(expression);
    decide(keys, Operation::kTake, 2, kNow);
    block(keys, 5 * kSecondNs, kNow);
    const std::string whole = value_of(keys);
    const std::size_t head = head_bytes(keys);
    std::string beyond = whole;
    beyond[head - 9] = '\xff';
    for (const auto& value : {whole.substr(0, head - 1), "\xf6" + whole, beyond}) {
      expect_fails_alone(keys, value,
                         {keys.request("a"), keys.request("a", 1, Operation::kCharge)});
    }
  }
}

TEST_F(ScriptOperations, AServerWithoutMemoryRefusesWhatWrites) {
  const LimitedKeys other = keys_of("fixed_window 5/1m", "other");
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const LimitedKeys keys = keys_of(expression);
    decide(keys, Operation::kTake, 2, kNow);
    decide(keys.request("blocked"), kNow);
    Request block = keys.request("blocked", 1, Operation::kBlock);
    block.duration_ns = 5 * kSecondNs;
    decide(block, kNow);
    const std::string before = ask({"DUMP", name_of(keys, "blocked")});
    ask({"CONFIG", "SET", "maxmemory", "1"});
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
    const auto decisions = decide(requests, kNow);
    for (const std::size_t i : {0U, 7U, 8U}) EXPECT_EQ(decisions[i].source, Source::kStore) << i;
    for (std::size_t i = 1; i <= 6; ++i) {
      EXPECT_EQ(decisions[i].source, Source::kUnavailable) << i;
      decide(requests[i]);
      EXPECT_THAT(error_, testing::HasSubstr(": OOM ")) << i;
    }
    const Request both[] = {other.request("x"), keys.request("a")};
    EXPECT_EQ(decide_all(both).source, Source::kUnavailable);
    EXPECT_THAT(error_, testing::HasSubstr(": OOM "));
    ask({"CONFIG", "SET", "maxmemory", "0"});
    EXPECT_EQ(decisions[8].remaining, decisions[0].remaining);
    EXPECT_EQ(decide(keys, Operation::kTake, 0, kNow).remaining, decisions[0].remaining);
    EXPECT_EQ(ask({"DUMP", name_of(keys, "blocked")}), before);
    EXPECT_EQ(ask({"DBSIZE"}), "2");
    ask({"FLUSHALL"});
  }
}

// Where clocks may be apart, what is over is kept for those that are behind: not for ever.
TEST_F(ScriptOperations, ARefundLeavesABlockThatOutlastsTheStateAsItIs) {
  use({.client_time = true});
  for (const auto* expression : kEachAlgorithm) {
    SCOPED_TRACE(expression);
    const LimitedKeys keys = keys_of(expression);
    decide(keys, Operation::kTake, 2, kNow);
    block(keys, 3'600 * kSecondNs, kNow);
    const Instant long_after = kNow + 1'800 * kSecondNs;
    EXPECT_TRUE(decide(keys, Operation::kRefund, 1, long_after).allowed);
    EXPECT_EQ(error_, "");
    EXPECT_EQ(decide(keys, Operation::kTake, 1, long_after).retry_after.count(), 1'800 * kSecondNs);
    EXPECT_GT(lifetime_ms(keys), 1'000'000);
    // Nor does one that comes after the block leave anything for good.
    EXPECT_TRUE(decide(keys, Operation::kRefund, 1, kNow + 3'600 * kSecondNs).allowed);
    EXPECT_EQ(error_, "");
    EXPECT_NE(ask({"PTTL", name_of(keys)}), "-1");
    ask({"FLUSHALL"});
  }
}

TEST_F(ScriptOperations, ChargesToALogHaveNoMoreThanSoManyEntries) {
  const LimitedKeys keys = keys_of("sliding_log 5/1h");
  const Request charge = keys.request("a", 1, Operation::kCharge);
  // One instant is one entry, and one call.
  const std::int64_t count = most_entries(5) + 50;
  for (std::int64_t i = 0; i < count; ++i) decide(charge, kNow + i);
  EXPECT_EQ(error_, "");
  EXPECT_LE(std::stol(ask({"STRLEN", name_of(keys)})), 16 * most_entries(5) + 100);
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
          ask({"FLUSHALL"});
          const LimitedKeys keys = keys_of("sliding_counter " + count + "/10h" + other);
          decide(keys, Operation::kTake, before, kStart);
          const Instant now = kStart + elapsed * kHourNs;
          const std::int64_t there = decide(keys, Operation::kTake, 0, now).remaining;
          const Decision decision = decide(keys, Operation::kTakeUpTo, kMaxInt64, now);
          ASSERT_EQ(error_, "");
          ASSERT_EQ(decision.taken, there);
          ASSERT_EQ(decision.remaining, decide(keys, Operation::kTake, 0, now).remaining);
        }
      }
    }
  }
}

class ScriptPermits : public ScriptTest {
 protected:
  static Decision acquire(LimitedKeys& keys, PermitId permit, Instant now) {
    return keys.permit(Operation::kTake, "a", now, permit);
  }
  // How many stand in the value.
  std::size_t permits(const LimitedKeys& keys) {
    return (value_of(keys).size() - head_bytes(keys)) / sizeof(PermitEntry);
  }
};

TEST_F(ScriptPermits, AreFoundByTheirWholeNameAlone) {
  LimitedKeys keys = keys_of("concurrency 9 lease=10s");
  // The end of one and the beginning of the next look like a third.
  acquire(keys, 0x1122'3344'0000'0000, kNow);
  acquire(keys, 7, kNow + 1);
  std::string value = value_of(keys);
  for (const std::size_t at : {value.size() - 20, value.size() - 16, value.size() - 12}) {
    PermitId across = 0;
    std::memcpy(&across, value.data() + at, sizeof across);
    EXPECT_FALSE(keys.permit(Operation::kRelease, "a", kNow + 1, across).allowed) << at;
  }
  EXPECT_EQ(permits(keys), 2U);
}

TEST_F(ScriptPermits, OutlastABlockAndABlockThem) {
  LimitedKeys keys = keys_of("concurrency 2 lease=1m");
  // A key without permits, then one whose permit lasts longer than the block.
  keys.block("a", kNow, 5 * kSecondNs);
  EXPECT_FALSE(acquire(keys, 1, kNow).allowed);
  EXPECT_TRUE(acquire(keys, 1, kNow + 5 * kSecondNs).allowed);
  keys.block("a", kNow + 5 * kSecondNs, 5 * kSecondNs);
  EXPECT_GT(lifetime_ms(keys), 59'000);
  EXPECT_FALSE(acquire(keys, 2, kNow + 6 * kSecondNs).allowed);
  EXPECT_TRUE(keys.permit(Operation::kRenew, "a", kNow + 6 * kSecondNs, 1).allowed);
  EXPECT_EQ(acquire(keys, 2, kNow + 10 * kSecondNs).remaining, 0);
  // By a clock that is behind, a permit that has expired when the key is blocked still counts.
  keys.block("a", kNow + 100 * kSecondNs, kSecondNs);
  EXPECT_TRUE(keys.permit(Operation::kRenew, "a", kNow + 10 * kSecondNs, 1).allowed);
  // One that lasts longer than the permits, and outlasts their release.
  keys.block("a", kNow + 10 * kSecondNs, 7200 * kSecondNs);
  for (const PermitId permit : {1, 2}) {
    EXPECT_TRUE(keys.permit(Operation::kRelease, "a", kNow + 10 * kSecondNs, permit).allowed);
  }
  EXPECT_GT(lifetime_ms(keys), 7'190'000);
  EXPECT_FALSE(acquire(keys, 3, kNow + 7200 * kSecondNs).allowed);
  EXPECT_EQ(acquire(keys, 3, kNow + 7210 * kSecondNs).remaining, 1);
}

TEST_F(ScriptPermits, AsManyAsThereMayBeAreKept) {
  LimitedKeys keys = keys_of("concurrency 65536 lease=1h");
  acquire(keys, 1, kNow);
  // All but one of them as if they had been acquired one by one.
  std::string value = value_of(keys).substr(0, head_bytes(keys));
  for (std::int64_t i = 0; i < 65'535; ++i) {
    const PermitEntry entry{kNow + i + 1, static_cast<PermitId>(i + 10)};
    value.append(reinterpret_cast<const char*>(&entry), sizeof entry);
  }
  ask({"SET", name_of(keys), value});
  EXPECT_EQ(acquire(keys, 2, kNow).remaining, 0);
  EXPECT_EQ(acquire(keys, 3, kNow).retry_after.count(), 1);
  EXPECT_TRUE(keys.permit(Operation::kRelease, "a", kNow, 40'000).allowed);
  EXPECT_TRUE(keys.permit(Operation::kRenew, "a", kNow, 50'000).allowed);
  EXPECT_EQ(permits(keys), 65'535U);
  EXPECT_EQ(acquire(keys, 3, kNow + 60'000).remaining, 65'536 - (5'535 + 3));
}

}  // namespace
}  // namespace sluice::redis

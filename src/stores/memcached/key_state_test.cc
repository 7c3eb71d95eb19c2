#include "stores/memcached/key_state.h"

#include <gtest/gtest.h>

#include <functional>

#include "sluice/limit.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace sluice::memcached {
namespace {

constexpr Instant kStateNow = 1'700'000'000 * kSecondNs + 5;

// One limit of each kind, and what its numbers may become.
const std::vector<std::string> kExpressions{
    "token_bucket 5/1s burst=9",
    "token_bucket 3/1s borrow=yes",
    "leaky_bucket 10/1s queue=7",
    "fixed_window 5/1s",
    "fixed_window 9007199254740991/1s anchor=first",
    "sliding_log 6/1s",
    "sliding_window 8/1s precision=300ms",
    "sliding_counter 7/1s",
    "sliding_log 4/1s & token_bucket 5/1s & fixed_window 6/3s & sliding_window 9/2s",
    "concurrency 3 lease=1s"};

Request take(const Limit& limit, std::int64_t cost = 1) {
  return {.limit = &limit.definition(), .key = "k", .cost = cost, .permit = 1};
}

MemcachedSpace space_of(const Limit& limit) {
  return {"sluice", limit.definition()};
}

std::string value_of(const KeyState& state, const Limit& limit) {
  std::string value;
  state.write(space_of(limit), value);
  return value;
}

std::string spent(const Limit& limit) {
  KeyState state;
  state.decide(take(limit), kStateNow);
  return value_of(state, limit);
}

std::string blocked(const Limit& limit) {
  KeyState state;
  state.decide(take(limit), kStateNow);
  Request block = take(limit);
  block.operation = Operation::kBlock;
  block.duration_ns = kSecondNs;
  state.decide(block, kStateNow);
  return value_of(state, limit);
}

TEST(KeyState, RefusesDamagedValues) {
  for (const auto& expression : kExpressions) {
    const Limit limit(expression);
    const MemcachedSpace space = space_of(limit);
    for (const std::string& value : {spent(limit), blocked(limit)}) {
      KeyState state;
      for (std::size_t i = 0; i < value.size(); ++i) {
        EXPECT_FALSE(state.read(value.substr(0, i), space));
        for (const int bit : {0, 3, 7}) {
          std::string damaged = value;
          damaged[i] = static_cast<char>(damaged[i] ^ (1 << bit));
          EXPECT_FALSE(state.read(damaged, space)) << expression << " byte " << i;
        }
      }
      EXPECT_FALSE(state.read(value + "x", space));
      EXPECT_EQ(state.decide(take(limit, 0), kStateNow),
                KeyState().decide(take(limit, 0), kStateNow));
      EXPECT_TRUE(state.read(value, space));
    }
  }
}

// Any client of the server can write such a value, since the hash is no secret.
TEST(KeyState, RefusesStatesThatNoLimitMakes) {
  const auto is_read = [](const std::string& expression, Instant blocked_until,
                          const std::function<void(ByteWriter&)>& write_states) {
    const Limit limit(expression);
    const MemcachedSpace space = space_of(limit);
    std::string value;
    ByteWriter writer(value);
    writer.put(char{1});
    writer.put(space.kind());
    writer.put(blocked_until);
    write_states(writer);
    writer.put(static_cast<std::uint32_t>(XXH3_64bits(value.data(), value.size())));
    KeyState state;
    const bool read = state.read(value, space);
    EXPECT_GT(state.decide(take(limit, 0), kStateNow).limit, 0);
    return read;
  };
  const auto window = [&](Instant start_ns, std::int64_t count, Instant blocked_until = 0) {
    return is_read("fixed_window 5/1s", blocked_until, [&](ByteWriter& writer) {
      for (const std::int64_t number : {start_ns, count}) writer.put(number);
    });
  };
  EXPECT_TRUE(window(kEndOfTime - 1, 1, kLastEnd));
  EXPECT_FALSE(window(kEndOfTime, 1));
  EXPECT_FALSE(window(-1, 1));
  EXPECT_FALSE(window(1, -1));
  EXPECT_FALSE(window(1, 1, kLastEnd + 1));
  EXPECT_FALSE(window(1, 1, -1));
  const auto log = [&](std::uint32_t size, const std::vector<RingEntry>& entries) {
    return is_read("sliding_log 5/1s", 0, [&](ByteWriter& writer) {
      writer.put(size);
      writer.put(std::uint64_t{0});
      writer.array(std::span(entries));
    });
  };
  EXPECT_TRUE(log(2, {{1, 1}, {2, 2}}));
  EXPECT_FALSE(log(2, {{1, 1}, {1, 2}}));
  EXPECT_FALSE(log(2, {{1, 1}, {2, 1}}));
  EXPECT_FALSE(log(3, {{1, 1}, {2, 2}}));
  const auto permits = [&](const std::vector<PermitEntry>& entries) {
    return is_read("concurrency 5", 0, [&](ByteWriter& writer) {
      writer.put(static_cast<std::uint32_t>(entries.size()));
      writer.array(std::span(entries));
    });
  };
  EXPECT_TRUE(permits({{1, 7}, {1, 8}}));
  EXPECT_FALSE(permits({{2, 7}, {1, 8}}));
  EXPECT_FALSE(permits({{1, 0}}));
}

// A key of one limit whose state travels through its value at each step.
class KeyValue : public testing::Test {
 protected:
  Decision ask(const Limit& limit, Operation operation, std::int64_t cost = 1,
               Instant now = kStateNow) {
    return ask({.limit = &limit.definition(), .key = "k", .operation = operation, .cost = cost},
               now);
  }
  Decision block(const Limit& limit, std::int64_t duration_ns, Instant now = kStateNow) {
    return ask({.limit = &limit.definition(),
                .key = "k",
                .operation = Operation::kBlock,
                .duration_ns = duration_ns},
               now);
  }
  Decision ask(const Request& request, Instant now) {
    const MemcachedSpace space("sluice", *request.limit);
    state_.clear();
    EXPECT_TRUE(value_.empty() || state_.read(value_, space));
    const Decision decision = state_.decide(request, now);
    if (!state_.changed()) return decision;
    value_.clear();
    if (!state_.is_gone()) state_.write(space, value_);
    return decision;
  }

  KeyState state_;
  std::string value_;  // Empty: there is none.
};

TEST_F(KeyValue, ABlockGoesOnlyWhenItsStateDoes) {
  const Limit window("fixed_window 5/1h");
  const Limit bucket("token_bucket 7/1h");
  ask(window, Operation::kTake);
  block(window, 10 * kSecondNs);
  for (const Operation operation : {Operation::kTake, Operation::kRefund}) {
    const std::int64_t nothing = operation == Operation::kTake ? 0 : 1;
    EXPECT_EQ(ask(bucket, operation, nothing).remaining, 7);
    EXPECT_FALSE(state_.changed());
    EXPECT_FALSE(ask(window, Operation::kTake).allowed);
  }
  EXPECT_FALSE(ask(Limit("fixed_window 9/1h"), Operation::kTake).allowed);
  // A block that is asked for lasts no longer than it says, though it is around nothing.
  EXPECT_EQ(block(bucket, kSecondNs).reset_after.count(), kSecondNs);
  EXPECT_EQ(ask(bucket, Operation::kTake).retry_after.count(), kSecondNs);
  EXPECT_EQ(ask(window, Operation::kTake).remaining, 4);
}

TEST_F(KeyValue, AStateLivesAsLongAsItsBlock) {
  const Limit limit("fixed_window 5/1s");
  ask(limit, Operation::kTake);
  block(limit, 60 * kSecondNs);
  EXPECT_EQ(state_.lifetime_ns(), 60 * kSecondNs);
  ask(limit, Operation::kCharge, 1, kStateNow + kSecondNs);
  EXPECT_EQ(state_.lifetime_ns(), 59 * kSecondNs);
}

// The limit may become strict: then units count for one sub-window longer.
TEST_F(KeyValue, AStateOfSubWindowsLivesAsLongAsIfItWereStrict) {
  constexpr Instant kStart = 1'700'000'000 * kSecondNs;
  for (const char* expression :
       {"sliding_window 5/10s precision=1s strict=no", "sliding_window 5/10s precision=1s"}) {
    const Limit limit(expression);
    KeyState state;
    state.decide(take(limit), kStart);
    EXPECT_EQ(state.lifetime_ns(), 11 * kSecondNs) << expression;
  }
}

}  // namespace
}  // namespace sluice::memcached

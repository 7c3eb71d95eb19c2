#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <deque>

#include "stores/memory/memory_store.h"
#include "testing/script_server.h"

namespace sluice::redis {
namespace {

// What the memory store and the script decide of the same requests, in virtual time.

constexpr const char* kExpressions[] = {
    "token_bucket 10/1s",
    "token_bucket 3/2305843009213693951ns burst=1",
    "token_bucket 1/1ns burst=9007199254740991",
    "token_bucket 5/1m burst=9 borrow=yes",
    "leaky_bucket 10/1s queue=4",
    "leaky_bucket 1/1ns queue=9007199254740990",
    "fixed_window 5/1s",
    "fixed_window 7/7ns",
    "fixed_window 9007199254740991/2305843009213693952ns",
    "fixed_window 5/1m anchor=first",
    "fixed_window 9007199254740991/2305843009213693952ns anchor=first",
    "sliding_counter 10/1s",
    "sliding_counter 9007199254740991/9007199254740992ns",
    "sliding_counter 3/1ns",
    "sliding_log 5/1s",
    "sliding_log 40/3s",
    "sliding_log 200/10s",
    "sliding_log 3/2305843009213693952ns",
    "sliding_window 20/1s",
    "sliding_window 20/1s precision=7ms",
    "sliding_window 9007199254740991/1s precision=999ms strict=no",
    "sliding_window 5/2305843009213693952ns",
    "token_bucket 10/1s & fixed_window 20/10s",
    "sliding_log 6/1s & sliding_log 30/10s & sliding_window 100/1m",
    "sliding_window 9/1s & sliding_counter 20/1m & leaky_bucket 9/1s queue=8 & sliding_log 99/2m",
    ("token_bucket 9/1m & sliding_log 8/1m & sliding_counter 7/1m & fixed_window 6/1m anchor=first "
     "& sliding_window 5/1m & leaky_bucket 9/1m queue=8 & fixed_window 70/1h & token_bucket 9/1ns"),
    "concurrency 1 lease=1s",
    "concurrency 3 lease=1m",
    "concurrency 40 lease=2305843009213693952ns",
};

constexpr const char* kKeys[] = {"alice", "bob", "{%}"};

struct Both {
  std::string expression;
  std::unique_ptr<RedisKeys> redis;
  std::shared_ptr<Space> memory;

  Request in_memory(Request request) const {
    request.space = memory.get();
    return request;
  }
};

class Agreement : public testing::Test {
 protected:
  static void SetUpTestSuite() { server_ = std::make_unique<ScriptServer>(); }
  static void TearDownTestSuite() { server_.reset(); }

  static std::unique_ptr<ScriptServer> server_;
};
std::unique_ptr<ScriptServer> Agreement::server_;

std::int64_t any_cost() {
  const auto kind = *rc::gen::weightedElement<int>({{60, 0}, {15, 1}, {20, 2}, {5, 3}});
  if (kind == 0) return 1;
  if (kind == 1) return 0;
  if (kind == 2) return *rc::gen::inRange<std::int64_t>(2, 12);
  return *rc::gen::elementOf(std::vector<std::int64_t>{
      kMaxCount, kMaxCount - 1, kMaxCount + 1, kMaxCount / 2, kMaxCount + 2, 2 * kMaxCount,
      kMaxInt64, std::int64_t{1} << 32, std::int64_t{1} << 61, kMaxInt64 - 1});
}

std::int64_t any_patience() {
  return *rc::gen::weightedElement<std::int64_t>(
      {{20, kDefaultPatience}, {1, 0}, {2, kSecondNs / 3}, {2, 60 * kSecondNs}, {1, kMaxInt64}});
}

// How far time goes on between batches: most often less than a window, now and then back.
Instant next_instant(Instant now) {
  const auto step = *rc::gen::weightedElement<std::int64_t>({{10, 0},
                                                             {10, 1},
                                                             {30, kSecondNs / 50},
                                                             {20, kSecondNs / 3},
                                                             {10, kSecondNs},
                                                             {5, 61 * kSecondNs},
                                                             {1, std::int64_t{1} << 53},
                                                             {1, std::int64_t{1} << 60},
                                                             {4, -1},
                                                             {4, -kSecondNs / 2},
                                                             {2, -100 * kSecondNs}});
  const auto jitter = *rc::gen::inRange<std::int64_t>(0, 5);
  return std::clamp<Instant>(now + step + jitter, 0, kEndOfTime - 1);
}

// A new name, or one of the last that were given, perhaps by another key.
PermitId any_permit(bool is_new) {
  static PermitId last = 0;
  const PermitId number = is_new ? ++last : last - *rc::gen::inRange<PermitId>(0, 9);
  // Spread over all bytes, as random names are.
  return number * 0x9E37'79B9'7F4A'7C15U;
}

void ask_for_permit(Request& request) {
  request.cost = *rc::gen::weightedElement<std::int64_t>({{20, 1}, {3, 0}});
  request.operation = *rc::gen::weightedElement<Operation>({{20, Operation::kTake},
                                                            {6, Operation::kRenew},
                                                            {12, Operation::kRelease},
                                                            {1, Operation::kBlock},
                                                            {1, Operation::kReset}});
  if (request.operation != Operation::kTake) request.cost = 1;
  request.permit = any_permit(request.operation == Operation::kTake);
}

Request any_request(const RedisKeys& keys) {
  Request request = keys.request(
      *rc::gen::elementOf(std::vector<std::string_view>(std::begin(kKeys), std::end(kKeys))),
      any_cost());
  request.duration_ns = *rc::gen::elementOf(
      std::vector<std::int64_t>{1, kSecondNs / 50, kSecondNs, 70 * kSecondNs, kMaxDurationNs});
  if (lends(keys.limit())) {
    ask_for_permit(request);
    return request;
  }
  request.operation = *rc::gen::weightedElement<Operation>({{40, Operation::kTake},
                                                            {10, Operation::kTakeUpTo},
                                                            {6, Operation::kCharge},
                                                            {8, Operation::kRefund},
                                                            {1, Operation::kBlock},
                                                            {1, Operation::kReset}});
  request.patience_ns = any_patience();
  return request;
}

std::string describe(const Request& request) {
  return request.limit->expression + " key " + std::string(request.key) + " operation " +
         std::to_string(static_cast<int>(request.operation)) + " cost " +
         std::to_string(request.cost) + " patience " + std::to_string(request.patience_ns);
}

void check(const Decision& redis, const Decision& memory, const std::string& what) {
  const auto text = [](const Decision& d) {
    return "allowed " + std::to_string(d.allowed) + " source " +
           std::to_string(static_cast<int>(d.source)) + " limit " + std::to_string(d.limit) +
           " remaining " + std::to_string(d.remaining) + " retry " +
           std::to_string(d.retry_after.count()) + " reset " +
           std::to_string(d.reset_after.count()) + " delay " + std::to_string(d.delay.count()) +
           " taken " + std::to_string(d.taken);
  };
  if (redis == memory) return;
  RC_FAIL(what + "\n  redis:  " + text(redis) + "\n  memory: " + text(memory));
}

std::vector<Both> open_all(MemoryStore& memory, const std::vector<std::string>& expressions) {
  std::vector<Both> limits;
  for (const auto& expression : expressions) {
    Both both{expression, std::make_unique<RedisKeys>(expression), nullptr};
    both.memory = memory.open_space(both.redis->limit());
    limits.push_back(std::move(both));
  }
  return limits;
}

MemoryOptions virtual_memory() {
  return {.max_bytes = std::size_t{256} << 20,
          .table = {.secret = HashSecret::fixed(), .forget = false}};
}

// Any batches over some limits decide alike on both.
void agree(ScriptServer& server, const std::vector<std::string>& expressions) {
  server.ask({"FLUSHALL"});
  server.options = kVirtualTime;
  MemoryStore memory(virtual_memory());
  const auto limits = open_all(memory, expressions);
  Instant now = *rc::gen::elementOf(
      std::vector<Instant>{0, 1'700'000'000 * kSecondNs, kEndOfTime - kSecondNs, Instant{1} << 53});
  const auto batches = *rc::gen::inRange(1, 40);
  for (int i = 0; i < batches; ++i) {
    now = next_instant(now);
    std::vector<Request> asked;
    std::vector<Request> in_memory;
    const auto size = *rc::gen::inRange(1, 12);
    for (int j = 0; j < size; ++j) {
      const auto& both = limits[*rc::gen::inRange<std::size_t>(0, limits.size())];
      asked.push_back(any_request(*both.redis));
      in_memory.push_back(both.in_memory(asked.back()));
    }
    std::vector<Decision> expected(asked.size());
    memory.decide(in_memory, now, expected);
    const auto decisions = server.decide(asked, now);
    for (std::size_t j = 0; j < asked.size(); ++j) {
      check(decisions[j], expected[j],
            "batch " + std::to_string(i) + " request " + std::to_string(j) + " at " +
                std::to_string(now) + ": " + describe(asked[j]) + " " + server.errors[j]);
    }
  }
}

// Any lists, all or nothing, over some limits decide alike on both.
void agree_together(ScriptServer& server, const std::vector<std::string>& expressions) {
  server.ask({"FLUSHALL"});
  server.options = kVirtualTime;
  MemoryStore memory(virtual_memory());
  const auto limits = open_all(memory, expressions);
  Instant now = 1'700'000'000 * kSecondNs;
  const auto lists = *rc::gen::inRange(1, 40);
  for (int i = 0; i < lists; ++i) {
    now = next_instant(now);
    std::vector<Request> asked;
    std::vector<Request> in_memory;
    std::string what = "list " + std::to_string(i) + ":";
    const auto first = *rc::gen::inRange<std::size_t>(0, limits.size());
    const auto size =
        *rc::gen::inRange<std::size_t>(1, std::min<std::size_t>(limits.size(), 6) + 1);
    for (std::size_t j = 0; j < size; ++j) {
      const auto& both = limits[(first + j) % limits.size()];
      asked.push_back(any_request(*both.redis));
      asked.back().operation = Operation::kTake;
      in_memory.push_back(both.in_memory(asked.back()));
      what += "\n  " + describe(asked.back());
    }
    check(server.decide_all(asked, now), memory.decide_all(in_memory, now), what);
  }
}

TEST_F(Agreement, AllOrNothing) {
  std::vector<std::string> all;
  for (const std::string expression : kExpressions) {
    if (!lends(RedisKeys(expression).limit())) all.push_back(expression);
  }
  EXPECT_TRUE(rc::check([&] { agree_together(*server_, all); }));
}

TEST_F(Agreement, LimitsWhoseNumbersChange) {
  // The same space under other numbers keeps its states.
  const auto agree_on = [&](const char* few_at_once, const char* many_at_once) {
    server_->ask({"FLUSHALL"});
    server_->options = kVirtualTime;
    MemoryStore memory(virtual_memory());
    const RedisKeys few(few_at_once, "l");
    const RedisKeys many(many_at_once, "l");
    const auto space = memory.open_space(few.limit());
    Instant now = 1'700'000'000 * kSecondNs;
    for (int i = 0; i < 60; ++i) {
      now = next_instant(now);
      Request request = any_request(*rc::gen::arbitrary<bool>() ? few : many);
      const std::string what = "request " + std::to_string(i) + ": " + describe(request);
      const Decision decision = server_->decide(request, now);
      request.space = space.get();
      Decision expected;
      memory.decide({&request, 1}, now, {&expected, 1});
      check(decision, expected, what);
    }
  };
  EXPECT_TRUE(rc::check([&] {
    agree_on("sliding_log 5/1s & sliding_window 3/1s",
             "sliding_log 300/1s & sliding_window 300/1s strict=no");
  }));
  EXPECT_TRUE(rc::check([&] { agree_on("concurrency 2 lease=1s", "concurrency 9 lease=300ms"); }));
}

TEST_F(Agreement, EachAlgorithmAlone) {
  for (const auto* expression : kExpressions) {
    SCOPED_TRACE(expression);
    EXPECT_TRUE(rc::check(expression, [&] { agree(*server_, {expression}); }));
  }
}

TEST_F(Agreement, AllInOneBatch) {
  const std::vector<std::string> all(std::begin(kExpressions), std::end(kExpressions));
  EXPECT_TRUE(rc::check([&] { agree(*server_, all); }));
}

}  // namespace
}  // namespace sluice::redis

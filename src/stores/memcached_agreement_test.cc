#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>

#include "core/arithmetic.h"
#include "sluice/limit.h"
#include "stores/memcached/key_state.h"
#include "stores/memory/memory_store.h"

namespace sluice::memcached {
namespace {

// What the memory store decides, and what is decided on a value that is written and read at each
// step, in virtual time.

constexpr const char* kExpressions[] = {
    "token_bucket 10/1s",
    "token_bucket 5/1m burst=9 borrow=yes",
    "token_bucket 3/2305843009213693951ns burst=1",
    "leaky_bucket 10/1s queue=4",
    "fixed_window 5/1s",
    "fixed_window 9007199254740991/2305843009213693952ns anchor=first",
    "sliding_counter 10/1s",
    "sliding_log 5/1s",
    "sliding_log 3/2305843009213693952ns",
    "sliding_window 20/1s precision=7ms",
    "sliding_window 9007199254740991/1s precision=999ms strict=no",
    "token_bucket 10/1s & fixed_window 20/10s",
    "sliding_log 6/1s & sliding_counter 30/10s & leaky_bucket 9/1s queue=8 & sliding_window 99/2m",
    "concurrency 1 lease=1s",
    "concurrency 3 lease=1s",
    "concurrency 32768 lease=2305843009213693952ns",
};

std::int64_t any_cost(bool lent) {
  if (lent) return *rc::gen::element<std::int64_t>(0, 1, 1, 1, 1);
  return *rc::gen::element<std::int64_t>(0, 1, 1, 1, 2, 3, 7, 11, kMaxCount, kMaxCount - 1,
                                         kMaxInt64, kMaxInt64 / 2);
}

Operation any_operation(bool lent) {
  using rc::gen::weightedElement;
  if (lent) {
    return *weightedElement<Operation>({{8, Operation::kTake},
                                        {6, Operation::kRelease},
                                        {4, Operation::kRenew},
                                        {1, Operation::kBlock},
                                        {1, Operation::kReset}});
  }
  return *weightedElement<Operation>({{12, Operation::kTake},
                                      {4, Operation::kTakeUpTo},
                                      {3, Operation::kCharge},
                                      {4, Operation::kRefund},
                                      {2, Operation::kBlock},
                                      {1, Operation::kReset}});
}

Request any_request(const Limit& limit, PermitId fresh) {
  const bool lent = lends(limit.definition());
  Request request{.limit = &limit.definition(),
                  .key = "k",
                  .operation = any_operation(lent),
                  .cost = any_cost(lent)};
  if (request.operation == Operation::kTake) {
    request.patience_ns = *rc::gen::element(kDefaultPatience, std::int64_t{0}, kSecondNs / 3);
    request.permit = fresh;
  } else if (lent) {
    request.cost = 1;
    request.permit = *rc::gen::inRange<PermitId>(1, fresh + 1);
  }
  request.duration_ns = *rc::gen::element<std::int64_t>(1, kSecondNs / 4, 2 * kSecondNs);
  return request;
}

Instant next_instant(Instant now) {
  const auto step =
      *rc::gen::element<std::int64_t>(0, 0, 1, kSecondNs / 50, kSecondNs / 50, kSecondNs / 3,
                                      kSecondNs, 61 * kSecondNs, -1, -kSecondNs / 2);
  return std::clamp<Instant>(now + step, 0, kEndOfTime - 1);
}

std::string text(const Decision& d) {
  return "allowed " + std::to_string(d.allowed) + " limit " + std::to_string(d.limit) +
         " remaining " + std::to_string(d.remaining) + " retry " +
         std::to_string(d.retry_after.count()) + " reset " + std::to_string(d.reset_after.count()) +
         " delay " + std::to_string(d.delay.count()) + " taken " + std::to_string(d.taken);
}

// Judges on the value and leaves it as a server would have it.
Decision decide(std::string& value, const Request& request, Instant now) {
  KeyState state;
  RC_ASSERT(value.empty() || state.read(value, *request.limit));
  const Decision decision = state.judge(request, now);
  if (!state.changed()) return decision;
  value.clear();
  if (!state.is_gone()) state.write(value);
  return decision;
}

void agree(const Limit& limit) {
  MemoryStore memory({.max_bytes = std::size_t{64} << 20,
                      .table = {.secret = HashSecret::fixed(), .forget = false}});
  const auto space = memory.open_space(limit.definition());
  std::string value;
  std::string asked;
  Instant now = *rc::gen::element<Instant>(0, 1'700'000'000 * kSecondNs, kEndOfTime - kSecondNs);
  const auto steps = *rc::gen::inRange(1, 80);
  for (int i = 0; i < steps; ++i) {
    now = next_instant(now);
    Request request = any_request(limit, static_cast<PermitId>(i) + 1);
    asked += "\n" + std::to_string(now) + ": operation " +
             std::to_string(static_cast<int>(request.operation)) + " cost " +
             std::to_string(request.cost) + " permit " + std::to_string(request.permit) +
             " duration " + std::to_string(request.duration_ns);
    const Decision decision = decide(value, request, now);
    request.space = space.get();
    Decision expected;
    memory.decide({&request, 1}, now, {&expected, 1});
    if (decision == expected) continue;
    RC_FAIL(asked + "\n  value:  " + text(decision) + "\n  memory: " + text(expected));
  }
}

TEST(Agreement, ValuesDecideAsMemoryDoes) {
  for (const auto* expression : kExpressions) {
    SCOPED_TRACE(expression);
    const Limit limit(expression);
    EXPECT_TRUE(rc::check(expression, [&] { agree(limit); }));
  }
}

}  // namespace
}  // namespace sluice::memcached

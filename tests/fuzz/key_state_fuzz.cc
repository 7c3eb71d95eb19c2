// Any value that a memcached returns for a key is refused, or it is a state: the limit's decisions
// on it are in range, and the value that is written back is read as the same state.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "sluice/limit.h"
#include "stores/memcached/key_state.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

using namespace sluice;

constexpr Instant kNow = 1'700'000'000'000'000'000;

// Appends the hash with which a value ends, so that the bytes before it are parsed.
std::string with_hash(std::string value) {
  auto hash = static_cast<std::uint32_t>(XXH3_64bits(value.data(), value.size()));
  for (int i = 0; i < 4; ++i, hash >>= 8) value += static_cast<char>(hash & 0xff);
  return value;
}

void decide(memcached::KeyState& state, const Request& request, Instant now) {
  const Decision decision = state.decide(request, now);
  check(decision.remaining >= 0 && decision.remaining <= decision.limit);
  check(decision.reset_after.count() >= 0);
  check(decision.allowed ? decision.retry_after.count() == 0 : decision.retry_after.count() > 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const std::array limits{
      Limit("token_bucket 5/1s"),    Limit("leaky_bucket 5/1s queue=3"),
      Limit("fixed_window 5/1s"),    Limit("fixed_window 5/1s anchor=first"),
      Limit("sliding_window 5/1s"),  Limit("sliding_log 5/1s"),
      Limit("sliding_counter 5/1s"), Limit("sliding_log 5/1s & token_bucket 9/1m borrow=yes"),
      Limit("concurrency 3")};
  if (size < 1) return 0;
  // The first byte says which limit is asked, whether the value gets the right hash, and whether
  // the key is blocked.
  const LimitDefinition& limit = limits[data[0] % limits.size()].definition();
  std::string value(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] < 0x80) value = with_hash(std::move(value));

  memcached::KeyState state;
  if (!state.read(value, limit)) check(state.is_gone());
  Request request{.limit = &limit, .key = "k", .cost = 0, .duration_ns = 1'000, .permit = 5};
  decide(state, request, kNow);
  check(!state.changed());
  const bool lent = lends(limit);
  request.cost = lent ? 1 : 2;
  decide(state, request, kNow);
  decide(state, request, 0);
  std::vector<Operation> operations{Operation::kTakeUpTo, Operation::kCharge, Operation::kRefund};
  if (lent) operations = {Operation::kRenew, Operation::kRelease};
  if ((data[0] & 0x40) != 0) operations.push_back(Operation::kBlock);
  for (const Operation operation : operations) {
    request.operation = operation;
    decide(state, request, kNow + 1);
  }
  if (!state.changed() || state.is_gone()) return 0;

  std::string written;
  state.write(written);
  memcached::KeyState again;
  if (!again.read(written, limit)) {
    // Stamps that are not the start of a sub-window, which Sluice never writes, may decrease
    // afterwards.
    check(limit.expression.starts_with("sliding_window"));
    return 0;
  }
  check(!again.is_gone());
  request.operation = Operation::kTake;
  for (const std::int64_t cost : {0, 1, 5}) {
    request.cost = cost;
    for (const Instant later : {kNow + 2, kNow + 2'000}) {
      memcached::KeyState one = state;
      memcached::KeyState other = again;
      check(one.decide(request, later) == other.decide(request, later));
    }
  }
  return 0;
}

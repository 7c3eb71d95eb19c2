// Any value that a memcached returns for a key is refused, or it is a state: the limit's decisions
// on it are in range, and the value that is written back is read as the same state.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "algorithms/state_codec.h"
#include "check.h"
#include "sluice/limit.h"
#include "stores/memcached/key_state.h"
#include "stores/memcached/memcached_space.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

using namespace sluice;

constexpr Instant kNow = 1'700'000'000'000'000'000;

// A value of this space with these states: what comes before them, and the hash with which it ends.
std::string value_of(const memcached::MemcachedSpace& space, std::string_view states) {
  std::string value;
  ByteWriter writer(value);
  writer.put(char{1});
  writer.put(space.kind());
  value += states;
  writer.put(static_cast<std::uint32_t>(XXH3_64bits(value.data(), value.size())));
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
  // The first byte says which limit is asked, whether the others are a value or what it says of the
  // states and the block, and whether the key is blocked.
  const LimitDefinition& limit = limits[data[0] % limits.size()].definition();
  const memcached::MemcachedSpace space("sluice", limit);
  std::string value(reinterpret_cast<const char*>(data) + 1, size - 1);
  if (data[0] < 0x80) value = value_of(space, value);

  memcached::KeyState state;
  if (!state.read(value, space)) check(state.is_gone());
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
  state.write(space, written);
  memcached::KeyState again;
  if (!again.read(written, space)) {
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

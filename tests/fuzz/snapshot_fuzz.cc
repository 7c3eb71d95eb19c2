// Any file is refused, or it is a snapshot: its limits can be opened, decisions on its keys are in
// the range of their limits, and the snapshot that is written afterwards is read as the same.

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "check.h"
#include "sluice/limit.h"
#include "stores/memory/snapshot.h"
#include "testing/snapshots.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace {

using namespace sluice;

constexpr Instant kNow = 1'700'000'000'000'000'000;
constexpr std::size_t kFormatBytes = std::string_view("sluice snapshot 2\n").size();
constexpr std::size_t kHeadBytes = 8;  // Of a block: its kind and its size.

// Sets the right checksums, so that the contents of the blocks are parsed.
std::string with_checksums(std::string bytes) {
  std::uint64_t number = 0;
  for (std::size_t at = kFormatBytes; at + kHeadBytes <= bytes.size(); ++number) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + at + 4, sizeof size);
    const std::size_t end = at + kHeadBytes + size;
    if (end + sizeof number > bytes.size()) break;
    const std::uint64_t seed = XXH3_64bits_withSeed(bytes.data() + at, kHeadBytes, number);
    const std::uint64_t checksum = XXH3_64bits_withSeed(bytes.data() + at + kHeadBytes, size, seed);
    std::memcpy(bytes.data() + end, &checksum, sizeof checksum);
    at = end + sizeof checksum;
  }
  return bytes;
}

// Whether the bytes are a snapshot, which the store has loaded then.
bool loads(MemoryStore& store, std::string_view bytes) {
  try {
    memory::load(store, kNow, bytes);
  } catch (const SnapshotError&) {
    return false;
  }
  return true;
}

// The decisions of one key of each limit, for some costs.
std::vector<Decision> decide(MemoryStore& store) {
  // The limits of the seeds, which have the names l0, l1 and so on.
  static const std::array limits{
      Limit("token_bucket 5/1s", "l0"),
      Limit("leaky_bucket 5/1s queue=3", "l1"),
      Limit("fixed_window 5/1s", "l2"),
      Limit("fixed_window 5/1s anchor=first", "l3"),
      Limit("sliding_window 5/1s", "l4"),
      Limit("sliding_log 5/1s", "l5"),
      Limit("sliding_counter 5/1s", "l6"),
      Limit("sliding_log 5/1s & token_bucket 9/1m borrow=yes & fixed_window 5/1s", "l7"),
      Limit("concurrency 3", "l8")};
  std::vector<Decision> decisions;
  for (const Limit& limit : limits) {
    std::shared_ptr<Space> space;
    try {
      space = store.open_space(limit.definition());
    } catch (const StoreError&) {
      continue;  // The snapshot has left no room for it.
    }
    for (const std::int64_t cost : {0, 1}) {
      const Request request{.limit = &limit.definition(),
                            .space = space.get(),
                            .key = "a",
                            .cost = cost,
                            .permit = 5};
      Decision decision;
      store.decide({&request, 1}, kNow, {&decision, 1});
      check(decision.remaining >= 0 && decision.remaining <= decision.limit);
      check(decision.reset_after.count() >= 0);
      decisions.push_back(decision);
    }
  }
  return decisions;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  std::string bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  // The first byte says whether the right checksums are set.
  if (data[0] < 0x80) bytes = with_checksums(std::move(bytes));
  const MemoryOptions options{.max_bytes = MemoryStore::kLeastBytes, .table = {}};
  MemoryStore store(options);
  if (!loads(store, bytes)) return 0;
  MemoryStore again(options);
  check(loads(again, memory::written(store, kNow)));
  if (store.counters().evicted == 0 && again.counters().evicted == 0) {
    check(decide(again) == decide(store));
  }
  return 0;
}

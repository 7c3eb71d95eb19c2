// decide_all(): several limits and keys, all or nothing.

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using std::chrono::nanoseconds;

// All are denied, or the store may admit the one that has no room without recording it.
TEST(Together, IfOneHasNoRoomItIsNotRecorded) {
  for (const bool allow : {false, true}) {
    SCOPED_TRACE(allow);
    MemoryOptions options = small_store();
    options.table.allow_when_full = allow;
    MemoryStore store(options);
    LimitedKeys roomy(store, "token_bucket 10/1h", "roomy");
    LimitedKeys crowded(store, "token_bucket 1/1h", "crowded");
    const std::string late = take_until_full(store, crowded);
    roomy.take("a", kStart);
    std::int64_t charged = 1;
    for (const bool roomy_first : {true, false}) {
      std::vector<Request> both{roomy.request("a"), crowded.request(late)};
      if (!roomy_first) std::swap(both[0], both[1]);
      const Decision decision = store.decide_all(both, kStart);
      charged += allow ? 1 : 0;
      EXPECT_EQ(decision.allowed, allow);
      EXPECT_EQ(decision.source, Source::kFull);
      EXPECT_EQ(decision.retry_after, nanoseconds(allow ? 0 : kHourNs));
      EXPECT_EQ(decision.delay.count(), 0);
      EXPECT_EQ(roomy.peek("a", kStart).remaining, 10 - charged);
      EXPECT_EQ(crowded.peek(late, kStart).reset_after.count(), 0);
    }
  }
}

// Nothing but lists is asked for any more.
TEST(Together, ListsFreeTheMemoryOfKeysThatHaveBecomeFresh) {
  MemoryStore store({.max_bytes = std::size_t{1} << 26, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys keys(store, "token_bucket 1/1s");
  for (std::uint64_t i = 0; i < 100'000; ++i) keys.take(key_name(i), kStart);
  const std::size_t before = store.used_bytes();
  for (int minute = 1; minute <= 3; ++minute) {
    for (std::uint64_t i = 0; i < 300'000; i += kMaxTogether) {
      std::array<std::string, kMaxTogether> names;
      std::vector<Request> list;
      for (std::string& name : names) {
        name = key_name(i + list.size());
        list.push_back(keys.request(name, 0));
      }
      store.decide_all(list, kStart + minute * kMinuteNs);
    }
  }
  EXPECT_LT(store.used_bytes(), before / 4);
}

// Lists of several limits in a store that is always full. An admitted list is charged to each
// member, since no member is evicted for another one; a denied list is charged to none.
TEST(Together, AFullStoreChargesAllOrNone) {
  MemoryStore store(small_store());
  std::vector<LimitedKeys> limits{{store, "token_bucket 4/1h"},
                                  {store, "sliding_log 4/1h"},
                                  {store, "sliding_counter 5/1h & fixed_window 4/1h"}};
  std::mt19937_64 random(17);
  int denied = 0;
  int full = 0;
  for (int step = 0; step < 12'000; ++step) {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < 3; ++i) names.push_back(key_name(random() % 12'000));
    std::vector<Request> list;
    std::vector<std::int64_t> before;
    for (std::size_t i = 0; i < limits.size(); ++i) {
      before.push_back(limits[i].peek(names[i], kStart).remaining);
      list.push_back(limits[i].request(names[i], static_cast<std::int64_t>(random() % 4)));
    }
    const Decision decision = store.decide_all(list, kStart);
    for (std::size_t i = 0; i < limits.size(); ++i) {
      const std::int64_t charged = decision.allowed ? list[i].cost : 0;
      ASSERT_EQ(limits[i].peek(names[i], kStart).remaining, before[i] - charged)
          << "member " << i << " at step " << step;
    }
    denied += decision.allowed ? 0 : 1;
    full += decision.source == Source::kFull ? 1 : 0;
  }
  EXPECT_GT(denied, 100);
  EXPECT_GT(store.counters().evicted + static_cast<std::uint64_t>(full), 1000U);
}

}  // namespace
}  // namespace sluice::memory

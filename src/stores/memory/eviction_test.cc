// Which keys a table forgets when it has no room, and its decision when it can forget none.

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/memory_keys.h"

namespace sluice::memory {
namespace {

using std::chrono::nanoseconds;

// A table with one limit, by default so small that it is soon full, and with the same hashing in
// every run.
class LoneTable {
 public:
  static constexpr std::size_t kFewBytes = std::size_t{256} << 10;

  struct Options {
    std::size_t max_bytes = kFewBytes;
    bool varies = false;
  };

  explicit LoneTable(std::string_view expression) : LoneTable(expression, Options{}) {}
  LoneTable(std::string_view expression, const Options& options)
      : home_(options.varies ? varying(expression, {}) : Limit(expression).definition()),
        table_(options.max_bytes, {.secret = HashSecret::fixed()}),
        space_(table_.limits().open(home_, nullptr).space) {}

  Decision take(std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(home_, key, now, cost);
  }
  // With other numbers than those of the table's limit.
  Decision take(const Limit& limit, std::string_view key, Instant now, std::int64_t cost = 1) {
    return take_by(limit.definition(), key, now, cost);
  }

  // The numbers of the table's limit change.
  void change(const Limit& limit) {
    LimitDefinition changed = home_;
    changed.parts = limit.definition().parts;
    const auto opened = table_.limits().open(changed, nullptr);
    ASSERT_EQ(opened.space, space_);
    table_.wait_for_readers();
  }

  // The standing of the keys in the shard of `key`, by tag: of the candidates for eviction only, or
  // of all.
  std::map<Tag, Standing> neighbours(std::string_view key, Instant now, bool candidates) {
    std::map<Tag, Standing> all;
    const Place place = table_.locate({.limit = &home_, .space = space_.get(), .key = key});
    const auto add = [&](const Slot& slot) {
      LimitTable::OwnParts room;
      all.emplace(slot.tag, standing(table_.limits().own_parts(slot.limit, room), slot.cell, now));
      return true;
    };
    if (candidates) {
      place.shard->visit_candidates(place.tag, add);
    } else {
      place.shard->visit_all(add);
    }
    return all;
  }

  std::size_t used_bytes() const { return table_.used_bytes(); }
  std::uint64_t evicted() const { return table_.counters().evicted; }
  std::uint64_t without_room() const { return table_.counters().without_room; }

 private:
  Decision take_by(const LimitDefinition& limit, std::string_view key, Instant now,
                   std::int64_t cost) {
    const Request request{.limit = &limit, .space = space_.get(), .key = key, .cost = cost};
    Decision decision;
    table_.decide_one(request, now, Clock(), decision);
    return decision;
  }

  LimitDefinition home_;
  Table table_;
  std::shared_ptr<Space> space_;
};

class EveryAlgorithm : public testing::TestWithParam<const char*> {
 protected:
  std::string limit(std::string_view count_and_window) const {
    std::string text = GetParam();
    for (std::size_t at = text.find('#'); at != std::string::npos; at = text.find('#')) {
      text.replace(at, 1, count_and_window);
    }
    return text;
  }
};

INSTANTIATE_TEST_SUITE_P(Eviction, EveryAlgorithm,
                         testing::Values("token_bucket #", "leaky_bucket # queue=1",
                                         "fixed_window #", "fixed_window # anchor=first",
                                         "sliding_log #", "sliding_window #", "sliding_counter #",
                                         "token_bucket # & sliding_log #"));

// No key of this table denies, so there is always one that can be forgotten.
TEST_P(EveryAlgorithm, IfNoKeyDeniesANewKeyIsAdmitted) {
  LoneTable table(limit("2/1h"), {.max_bytes = MemoryStore::kLeastBytes});
  int denied = 0;
  int keys = 0;
  for (; table.evicted() < 1500; ++keys) {
    denied += table.take(key_name(keys), kStart + keys).allowed ? 0 : 1;
    ASSERT_LE(table.used_bytes(), MemoryStore::kLeastBytes) << "key " << keys;
  }
  EXPECT_EQ(denied, 0) << "of " << keys << " keys";
}

// Takes from the keys with the numbers that `draw` returns, each a little later than the one
// before. A key that was denied must stay denied until then. Returns how often one was denied
// again.
template <typename Draw, typename Take>
int expect_denials_kept(int steps, Instant longest_step, unsigned seed, Draw draw, Take take) {
  std::mt19937_64 random(seed);
  std::map<std::uint64_t, Instant> denied_until;
  Instant now = kStart;
  int denials = 0;
  for (int i = 0; i < steps && !testing::Test::HasFailure(); ++i) {
    now += static_cast<Instant>(random() % static_cast<std::uint64_t>(longest_step));
    const std::uint64_t number = draw(i, random());
    const Decision decision = take(number, now);
    const auto until = denied_until.find(number);
    if (until != denied_until.end() && now < until->second) {
      EXPECT_FALSE(decision.allowed) << "key " << number << " was forgotten at step " << i;
      EXPECT_EQ(decision.retry_after.count(), until->second - now);
      ++denials;
    } else if (!decision.allowed && decision.source == Source::kStore) {
      denied_until[number] = now + decision.retry_after.count();
    }
  }
  return denials;
}

// Far more keys than there is room for are used again and again.
TEST_P(EveryAlgorithm, AKeyThatDeniesIsNotForgotten) {
  LoneTable table(limit("2/1h"));
  // Some keys are used often, so that there are denials of every age.
  const auto draw = [](int step, std::uint64_t random) {
    return random % (step % 2 == 0 ? 500 : 100'000);
  };
  EXPECT_GT(expect_denials_kept(
                26'000, kSecondNs / 8, 7, draw,
                [&](std::uint64_t key, Instant now) { return table.take(key_name(key), now); }),
            1000);
  EXPECT_GT(table.evicted(), 0U);
}

// Each key has one of a thousand sets of numbers, and is used up.
TEST_P(EveryAlgorithm, AKeyThatDeniesByItsOwnNumbersIsNotForgotten) {
  std::vector<Limit> limits;
  for (int i = 0; i < 1'000; ++i) {
    std::string text = limit(std::to_string(65 + i) + "/7d");
    if (i % 2 == 0 && text.starts_with("sliding_window")) text += " strict=no";
    limits.emplace_back(text);
  }
  LoneTable table(limits[0].expression(), {.varies = true});
  const auto draw = [](int step, std::uint64_t random) {
    return random % (step % 2 == 0 ? 500 : 100'000);
  };
  const auto take = [&](std::uint64_t key, Instant now) {
    const Limit& own = limits[key % limits.size()];
    const std::int64_t left = table.take(own, key_name(key), now, 0).remaining;
    return table.take(own, key_name(key), now, std::max<std::int64_t>(1, left));
  };
  // Keys that need records fill the table with fewer steps.
  const int steps = limits[0].expression().find("sliding") == std::string::npos ? 26'000 : 13'000;
  EXPECT_GT(expect_denials_kept(steps, kSecondNs / 8, 13, draw, take), 1000);
  EXPECT_GT(table.evicted() + table.without_room(), 0U);
  EXPECT_LE(table.used_bytes(), LoneTable::kFewBytes);
}

// Checks the decision for a new key against the keys that were in its shard before.
void must_be_right(LoneTable& table, std::string_view key, Instant now) {
  const auto before = table.neighbours(key, now, false);
  const auto candidates = table.neighbours(key, now, true);
  const bool any_fresh =
      std::ranges::any_of(before, [](const auto& one) { return one.second.fresh; });
  const Decision decision = table.take(key, now);
  const auto after = table.neighbours(key, now, false);
  std::vector<Tag> forgotten;
  for (const auto& [tag, standing] : before) {
    if (!after.contains(tag) && !standing.fresh) forgotten.push_back(tag);
  }
  if (decision.source == Source::kFull) {
    ASSERT_TRUE(forgotten.empty());
    for (const auto& one : candidates) ASSERT_TRUE(one.second.denies);
    return;
  }
  ASSERT_TRUE(decision.allowed);
  ASSERT_LE(forgotten.size(), 1U);
  if (forgotten.empty()) return;
  const Standing& victim = before.at(forgotten[0]);
  ASSERT_FALSE(victim.denies);
  // Fresh keys are swept first, which may move other keys nearer: then the candidates are not those
  // from before.
  if (any_fresh) return;
  ASSERT_TRUE(candidates.contains(forgotten[0]));
  for (const auto& [tag, standing] : candidates) {
    ASSERT_TRUE(standing.denies || standing.reset_after >= victim.reset_after);
  }
}

TEST(Eviction, ForgetsTheSmallestResetAfterAmongKeysThatDoNotDeny) {
  LoneTable table("token_bucket 3/1h");
  std::mt19937_64 random(11);
  Instant now = kStart;
  for (std::uint64_t i = 0; i < 30'000; ++i) {
    now += static_cast<Instant>(random() % (kSecondNs / 5));
    must_be_right(table, key_name(i), now);
    if (testing::Test::HasFatalFailure()) FAIL() << "at key " << i;
    // The new key, and one of the earlier keys, take some units.
    table.take(key_name(i), now, static_cast<std::int64_t>(random() % 3));
    table.take(key_name(i - random() % (i + 1)), now);
  }
  EXPECT_GT(table.evicted(), 100U);
}

TEST(Eviction, ForgetsFreshKeysFirst) {
  LoneTable table("token_bucket 3/1h");
  int keys = 0;
  while (table.evicted() == 0) table.take(key_name(keys++), kStart);
  // An hour later all of them are fresh.
  int found_fresh = 0;
  for (int i = 0; i < keys; ++i) {
    const std::string key = "new" + std::to_string(i);
    const auto candidates = table.neighbours(key, kStart + kHourNs, true);
    const std::uint64_t before = table.evicted();
    ASSERT_TRUE(table.take(key, kStart + kHourNs).allowed);
    const auto fresh = [](const auto& one) { return one.second.fresh; };
    if (std::ranges::none_of(candidates, fresh)) continue;
    ++found_fresh;
    ASSERT_EQ(table.evicted(), before);
  }
  EXPECT_GT(found_fresh, keys / 4);
}

// Also those that are not near the place of the new key, if they are in its shard.
TEST(Eviction, FreshKeysOfTheShardMakeRoom) {
  LoneTable table("token_bucket 3/1h", {.max_bytes = std::size_t{4} << 20});
  int keys = 0;
  for (; table.evicted() == 0; ++keys) table.take(key_name(keys), kStart, keys % 8 == 0 ? 1 : 2);
  const int fewer = keys / 16;  // Than the keys of one unit, which are fresh by then.
  for (int i = 0; i < fewer; ++i) table.take("new" + std::to_string(i), kStart + kHourNs / 3);
  EXPECT_LT(table.evicted(), fewer / 25);
}

TEST(Eviction, AnEvictedKeyStartsFresh) {
  LoneTable table("token_bucket 3/1h");
  int keys = 0;
  while (table.evicted() == 0) table.take(key_name(keys++), kStart);
  int fresh = 0;
  for (int i = 0; i < keys; ++i) {
    const std::int64_t remaining = table.take(key_name(i), kStart, 0).remaining;
    ASSERT_TRUE(remaining == 2 || remaining == 3);
    fresh += remaining == 3 ? 1 : 0;
  }
  EXPECT_EQ(fresh, 1);
}

// Fills a table with keys that all deny, one a microsecond, until most new ones find no room.
Instant fill_with_denying(LoneTable& table) {
  Instant now = kStart;
  for (int i = 0; table.without_room() < 1000; ++i) table.take(key_name(i), now += 1000);
  return now;
}

TEST(Full, IfAllDenyANewKeyIsDenied) {
  for (const auto* limit : {"token_bucket 1/1h", "sliding_log 1/1h", "fixed_window 1/1h"}) {
    SCOPED_TRACE(limit);
    LoneTable table(limit);
    const Instant now = fill_with_denying(table);
    int denied = 0;
    for (int i = 0; i < 1000; ++i) {
      const std::string key = "new" + std::to_string(i);
      const Decision decision = table.take(key, now);
      if (decision.source == Source::kStore) continue;  // Its shard still had room.
      ++denied;
      ASSERT_FALSE(decision.allowed);
      EXPECT_EQ(decision.limit, 1);
      EXPECT_EQ(decision.delay.count(), 0);
      ASSERT_GT(decision.retry_after, nanoseconds(0));
      ASSERT_LE(decision.retry_after, nanoseconds(kHourNs));
    }
    EXPECT_GT(denied, 100);
    EXPECT_EQ(table.evicted(), 0U);
    EXPECT_LE(table.used_bytes(), LoneTable::kFewBytes);
  }
}

TEST(Full, RetryAfterEndsWhenThereIsRoom) {
  LoneTable table("token_bucket 1/1h");
  const Instant now = fill_with_denying(table);
  int tried = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string key = "new" + std::to_string(i);
    const Decision decision = table.take(key, now);
    if (decision.source == Source::kStore) continue;
    ++tried;
    const Instant then = now + decision.retry_after.count();
    const Decision retried = table.take(key, then);
    ASSERT_TRUE(retried.allowed);
    ASSERT_EQ(retried.source, Source::kStore);
  }
  EXPECT_GT(tried, 20);
}

// The keys near it have no records, so that it does not matter that none of them denies.
TEST(Full, RetryAfterEndsWhenThereIsRoomForARecord) {
  MemoryStore store(small_store());
  LimitedKeys packed(store, "fixed_window 1000/1d");
  for (std::uint64_t i = 0; store.counters().evicted < 5'000; ++i) packed.take(key_name(i), kStart);
  LimitedKeys logs(store, "sliding_log 1/1h");
  Instant now = kStart;
  for (std::uint64_t i = 0; store.counters().without_room < 100; ++i) {
    logs.take(key_name(i), now += 1000);
  }
  const Decision denied = logs.take("new", now);
  ASSERT_EQ(denied.source, Source::kFull);
  EXPECT_GT(denied.retry_after, std::chrono::minutes(59));
  EXPECT_TRUE(logs.take("new", now + denied.retry_after.count()).allowed);
}

// The shard has no key that it could forget, and waiting 73 years would not change that.
TEST(Full, FreshKeysElsewhereMakeRoom) {
  LoneTable table("sliding_log 10000/1s");
  Instant now = kStart;
  for (int key = 0; table.without_room() == 0; ++key) {
    for (int i = 0; i < 3000 && table.without_room() == 0; ++i) table.take(key_name(key), ++now);
  }
  now += kHourNs;
  for (int i = 0; i < 3000; ++i) {
    const Decision decision = table.take("new" + std::to_string(i), now);
    ASSERT_TRUE(decision.allowed) << "key " << i << ": retry after " << decision.retry_after.count()
                                  << " ns, while every other key has been fresh for an hour";
  }
}

// Keys that fit their slots do not take all of the memory, and none of them is forgotten in vain
// when a key that needs a record finds no room.
TEST(Full, KeysWithoutRecordsLeaveRoomForRecords) {
  for (const auto* limit : {"sliding_log 5/10m", "sliding_counter 5/10m", "concurrency 2",
                            "token_bucket 9/1h & fixed_window 9/1h"}) {
    SCOPED_TRACE(limit);
    MemoryStore store(small_store());
    LimitedKeys packed(store, "fixed_window 1000/1d");
    for (std::uint64_t i = 0; store.counters().evicted < 5'000; ++i) {
      packed.take(key_name(i), kStart);
    }
    const std::uint64_t before = store.counters().evicted;
    LimitedKeys keys(store, limit);
    constexpr std::uint64_t kKeys = 3'000;
    int admitted = 0;
    for (std::uint64_t i = 0; i < kKeys; ++i) {
      const std::string key = "new" + std::to_string(i);
      admitted += keys.permit(Operation::kTake, key, kStart, i + 1).allowed ? 1 : 0;
    }
    EXPECT_GE(admitted, kKeys * 99 / 100);
    EXPECT_LE(store.counters().evicted - before, 4 * kKeys);
    EXPECT_LE(store.used_bytes(), MemoryStore::kLeastBytes);
  }
}

// If a large record cannot grow, evicting a few small keys near it would not help.
TEST(Full, ADeniedRequestEvictsNoKey) {
  LoneTable table("sliding_log 10000/1h");
  Instant now = kStart;
  for (int i = 0; i < 1500; ++i) ASSERT_TRUE(table.take("large", ++now).allowed);
  for (int i = 0; table.evicted() == 0 && table.without_room() == 0; ++i) {
    table.take("small" + std::to_string(i), ++now);
  }
  std::uint64_t before = table.evicted();
  for (int i = 0; i < 5000; ++i) {
    const Decision decision = table.take("large", ++now);
    if (decision.source == Source::kFull) {
      ASSERT_EQ(table.evicted(), before) << "denied at " << i << ", yet others were forgotten";
      ASSERT_GT(decision.retry_after, nanoseconds(1)) << "an invitation to spin";
    }
    before = table.evicted();
  }
}

// Also where there is room for some parts of a new key's limit, and not for the others.
TEST(Full, IfItAllowsEveryNewKeyOfManyPartsIsAllowed) {
  MemoryOptions options = small_store();
  options.table.allow_when_full = true;
  MemoryStore store(options);
  LimitedKeys small(store, "sliding_counter 8/1d", "small");
  small.take("k", kStart, 8);
  LimitedKeys others(store, "sliding_log 8/1d", "others");
  for (std::uint64_t i = 0; store.counters().without_room < 1'000; ++i) {
    others.take(key_name(i), kStart, 8);
  }
  // Its record leaves room for one of the same size.
  small.reset("k", kStart);
  LimitedKeys keys(store, "sliding_counter 9/1h & sliding_log 1000/1d");
  for (std::uint64_t i = 0; i < 300; ++i) {
    for (int again = 0; again < 2; ++again) {
      ASSERT_TRUE(keys.take(key_name(i), kStart).allowed) << i;
    }
  }
}

TEST(Eviction, AStoreWhoseKeysAreResetBecomesSmall) {
  MemoryStore store({.max_bytes = std::size_t{64} << 20, .table = {.secret = HashSecret::fixed()}});
  LimitedKeys keys(store, "token_bucket 1/1h");
  Instant now = kStart;
  for (std::uint64_t i = 0; i < 200'000; ++i) keys.take(key_name(i), now);
  const std::size_t full = store.used_bytes();
  for (std::uint64_t i = 0; i < 200'000; ++i) keys.reset(key_name(i), now);
  for (int minute = 0; minute < 3; ++minute) {
    now += kMinuteNs;
    for (std::uint64_t i = 0; i < 300'000; ++i) keys.peek(key_name(i), now);
  }
  EXPECT_LT(store.used_bytes(), full / 4);
}

// Keys that deny by numbers of their own, and many more that are used with others, by which the
// first would not deny, and be nearer to fresh.
TEST(VaryingNumbers, AKeyThatDeniesByItsOwnOutlivesOthers) {
  struct Row {
    const char* first;  // The limit is opened with these numbers.
    const char* used;   // A unit is taken from each key with these numbers.
    const char* own;    // With these it denies from then on.
    const char* others;
    std::int64_t cost;  // Of a use with others.
  };
  // Of two parts, which differ in the second.
  constexpr const char* kOnePart = "fixed_window 1000/1h & fixed_window 1/1d";
  constexpr const char* kManyParts = "fixed_window 1000/1h & fixed_window 2000/1d";
  constexpr const char* kOther = "token_bucket 1/1s";
  for (const Row& row :
       {Row{kOther, kOne, kOne, kMany, 2'000},
        // A denied request changes no state, but then the key denies by its numbers.
        Row{kOther, "token_bucket 1000/1h", kOne, "token_bucket 1000/1h", 1},
        Row{kManyParts, kOnePart, kOnePart, kManyParts, 2},
        Row{kManyParts, kManyParts, kOnePart, kManyParts, 2}}) {
    MemoryStore store(small_store());
    const LimitedKeys first(store, varying(row.first));
    LimitedKeys used(store, varying(row.used));
    LimitedKeys own(store, varying(row.own));
    LimitedKeys others(store, varying(row.others));
    EXPECT_EQ(take_from_each(used, "denied"), 500);
    if (std::string_view(row.used) != row.own) EXPECT_EQ(take_from_each(own, "denied"), 0);
    crowd_out(store, others, row.cost);
    EXPECT_EQ(take_from_each(own, "denied"), 0) << row.own;
  }
}

// A limit gets its first override, or another user with other numbers (a plan), and other numbers
// for the rest: all that has been denied stays denied, by whichever numbers.
TEST(VaryingNumbers, MayBeginToVaryWhileTheSpaceHasKeys) {
  for (const bool plans : {false, true}) {
    SCOPED_TRACE(plans);
    MemoryStore store(small_store());
    const auto open = [&](const char* expression) {
      return plans ? LimitedKeys(store, expression, "api")
                   : LimitedKeys(store, varying(expression, "api"));
    };
    std::optional<LimitedKeys> former(std::in_place, store, kMany, "api");
    take_from_each(*former, "former", 1'000);
    if (!plans) {  // The limit was replaced.
      ASSERT_EQ(store.replace_space(former->space(), varying(kOne, "api")), former->space());
      former.reset();
    }
    LimitedKeys one = open(kOne);
    LimitedKeys many = open(kMany);
    ASSERT_EQ(one.space(), many.space());
    EXPECT_EQ(take_from_each(one, "own"), 500);
    // By these numbers none of the keys so far denies, and all are nearer to fresh.
    crowd_out(store, many, 2'000);
    EXPECT_EQ(take_from_each(one, "own"), 0);
    if (!plans) EXPECT_EQ(take_from_each(one, "former"), 0);
  }
}

// As by callers that make a limiter for each call, in turn of two plans.
TEST(VaryingNumbers, AreThoseOfEachKeyIfALimitIsOpenedAnewForEachCall) {
  MemoryStore store(small_store());
  const auto take = [&](const char* expression, const std::string& key, std::int64_t cost) {
    return LimitedKeys(store, expression, "api").take(key, kStart, cost).allowed;
  };
  for (int i = 0; i < 500; ++i) {
    ASSERT_TRUE(take(kOne, "one" + std::to_string(i), 1));
    ASSERT_TRUE(take(kMany, "many" + std::to_string(i), 3'000));
  }
  for (std::uint64_t i = 0; store.counters().evicted < 30'000; ++i) {
    ASSERT_TRUE(take(kMany, key_name(i), 1'500)) << i;
  }
  for (int i = 0; i < 500; ++i) {
    ASSERT_FALSE(take(kOne, "one" + std::to_string(i), 1)) << i;
    ASSERT_FALSE(take(kMany, "many" + std::to_string(i), 1)) << i;
  }
  EXPECT_EQ(store.counters().without_room, 0U) << "keys were denied for lack of room";
}

TEST(VaryingNumbers, GoOnToVaryWhenTheirUsersHaveGone) {
  MemoryStore store(small_store());
  {
    const LimitedKeys one(store, kOne, "api");
    LimitedKeys many(store, kMany, "api");
    take_from_each(many, "own", 1'000);
  }
  LimitedKeys one(store, kOne, "api");
  EXPECT_EQ(take_from_each(one, "own"), 0);
  LimitedKeys others(store, kMany, "others");
  crowd_out(store, others, 2'000);
  EXPECT_EQ(take_from_each(one, "own"), 0);
}

TEST(Eviction, AKeyThatDeniesByChangedNumbersIsNotForgotten) {
  for (const auto& [from, to] : {std::pair("token_bucket 1000/1h burst=2000", "token_bucket 2/1h"),
                                 {"token_bucket 1000/1h burst=2000 & fixed_window 3000/1h",
                                  "token_bucket 2/1h & fixed_window 3/1h"}}) {
    LoneTable table(from);
    const Limit strict(to);
    ASSERT_TRUE(table.take(strict, "denied", kStart, 2).allowed);
    table.change(strict);
    ASSERT_FALSE(table.take(strict, "denied", kStart).allowed);
    for (std::uint64_t i = 0; i < 20'000; ++i) table.take(strict, key_name(i), kStart);
    ASSERT_GT(table.evicted(), 0U);
    EXPECT_FALSE(table.take(strict, "denied", kStart).allowed) << to;
  }
}

}  // namespace
}  // namespace sluice::memory

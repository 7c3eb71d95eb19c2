#include "stores/memory/judge.h"

#include <gtest/gtest.h>

#include <vector>

#include "testing/lone_records.h"

namespace sluice::memory {
namespace {

constexpr Instant kNow = 1'700'000'000'000'000'000;

constexpr std::size_t kPlenty = std::size_t{1} << 24;
constexpr std::size_t kKeyBytes = 4096;

// The cell of one key of a limit, with a separate budget.
class LoneKey : public LoneRecords {
 public:
  explicit LoneKey(std::string_view home, std::size_t max_bytes = kPlenty)
      : LoneRecords(max_bytes), home_(parse_parts(home)) {}

  // Takes with these numbers, as a store does. Returns false if it is denied or has no room.
  bool take(const std::vector<AnyPart>& asked, std::int64_t cost = 1) {
    std::vector<Judged> judged;
    for (std::size_t i = 0; i < asked.size(); ++i) {
      judged.push_back(judge(asked[i], part_of(cell, i), Operation::kTake, {kNow, cost}));
      if (!judged.back().decision.allowed) return false;
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      const auto reserves = [&](Records& records) {
        return reserve_part(records, asked, i, cell, judged[i].change);
      };
      if (!reserve(reserves)) return false;
    }
    for (std::size_t i = 0; i < asked.size(); ++i) {
      commit_part(records(), asked, i, cell, judged[i].change);
    }
    return true;
  }
  bool take_home(std::int64_t cost = 1) { return take(home_, cost); }

  std::int64_t remaining(std::string_view asked, std::size_t index = 0) const {
    const auto part = parse_parts(asked).at(index);
    return judge(part, part_of(cell, index), Operation::kTake, {kNow, 0}).decision.remaining;
  }
  Standing standing_at(Instant now) const { return standing(home_, cell, now); }
  bool is_fresh_at(Instant now) const { return is_fresh(home_, cell, now); }

 private:
  std::vector<AnyPart> home_;
};

TEST(Parts, AnEntryOfThisInstantNeedsNoRoom) {
  constexpr auto kBoth = "token_bucket 9/1m & sliding_log 9/1m";
  LoneKey key(kBoth, kKeyBytes);
  ASSERT_TRUE(key.take_home());
  key.leave_no_room();
  EXPECT_TRUE(key.take_home(2));
  EXPECT_EQ(key.remaining(kBoth, 0), 6);
  EXPECT_EQ(key.remaining(kBoth, 1), 6);
}

TEST(Standing, OfAFreshKeyIsFresh) {
  for (const auto* limit : {"token_bucket 1/1s", "leaky_bucket 1/1s queue=0", "fixed_window 1/1s",
                            "sliding_log 1/1s", "sliding_window 1/1s", "sliding_counter 1/1s"}) {
    LoneKey key(limit);
    EXPECT_TRUE(key.standing_at(kNow).fresh) << limit;
    EXPECT_FALSE(key.standing_at(kNow).denies) << limit;
    ASSERT_TRUE(key.take_home());
    EXPECT_FALSE(key.standing_at(kNow).fresh) << limit;
    EXPECT_TRUE(key.standing_at(kNow).denies) << limit;
    EXPECT_GT(key.standing_at(kNow).retry_after.count(), 0) << limit;
    const Instant later = kNow + key.standing_at(kNow).reset_after.count();
    EXPECT_TRUE(key.standing_at(later).fresh) << limit;
    EXPECT_TRUE(key.is_fresh_at(later)) << limit;
    EXPECT_FALSE(key.standing_at(later - 1).fresh) << limit;
    EXPECT_FALSE(key.is_fresh_at(later - 1)) << limit;
  }
}

TEST(Standing, OfSeveralPartsHasTheLongestWaits) {
  LoneKey key("token_bucket 5/1s & fixed_window 1/1d anchor=first");
  ASSERT_TRUE(key.take_home());
  EXPECT_TRUE(key.standing_at(kNow).denies);
  EXPECT_EQ(key.standing_at(kNow).retry_after, std::chrono::hours(24));
  EXPECT_EQ(key.standing_at(kNow).reset_after, std::chrono::hours(24));
}

TEST(Standing, OfAnyKeyOfALimitWithoutPartsIsFresh) {
  EXPECT_TRUE(standing({}, 7, kNow).fresh);
  EXPECT_FALSE(standing({}, 7, kNow).denies);
  EXPECT_TRUE(is_fresh({}, 7, kNow));
}

}  // namespace
}  // namespace sluice::memory

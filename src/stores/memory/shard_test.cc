#include "stores/memory/shard.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <map>
#include <set>
#include <utility>
#include <vector>

namespace sluice::memory {
namespace {

// What the limit of a tag's slot must be, wherever the tag is.
LimitId limit_of(Tag tag) {
  return static_cast<LimitId>(tag * 7);
}

// A shard with a separate budget, of which nothing is in use at the end.
struct LoneShard {
  explicit LoneShard(std::size_t max_bytes = std::size_t{1} << 24) : budget(max_bytes) {
    EXPECT_TRUE(shard.start(budget));
  }
  ~LoneShard() { shard.release(budget); }

  Cell* add(Tag tag, Cell cell) {
    if (shard.crowded() && !shard.grow(budget)) return nullptr;
    Cell* slot = shard.insert(tag, limit_of(tag));
    *slot = cell;
    return slot;
  }

  Budget budget;
  Shard shard;
};

std::map<Tag, Cell> contents(const Shard& shard) {
  std::map<Tag, Cell> all;
  shard.visit_all([&](const Slot& slot) {
    all.emplace(slot.tag, slot.cell);
    EXPECT_EQ(slot.limit, limit_of(slot.tag));
  });
  return all;
}

// A tag whose home is the first line, the last or one between, for any size of the shard. There are
// few different halves, so that tags collide.
rc::Gen<Tag> tags() {
  const auto upper =
      rc::gen::element<Tag>(0, 1, 0x4000'0000, 0x8000'0000, 0xF000'0000, 0xFFFF'FFFF);
  const auto lower = rc::gen::inRange<Tag>(1, 24);
  return rc::gen::map(rc::gen::pair(upper, lower),
                      [](const auto& halves) { return halves.first << 32 | halves.second; });
}

enum class Act { kInsert, kErase, kGrow, kChange };

struct Move {
  Act act;
  Tag tag;
};

void showValue(const Move& move, std::ostream& out) {
  out << "{" << static_cast<int>(move.act) << ", " << std::hex << move.tag << std::dec << "}";
}

rc::Gen<std::vector<Move>> moves() {
  const auto act = rc::gen::weightedElement<Act>(
      {{12, Act::kInsert}, {8, Act::kErase}, {1, Act::kGrow}, {2, Act::kChange}});
  return rc::gen::container<std::vector<Move>>(
      rc::gen::map(rc::gen::pair(act, tags()), [](const auto& pair) {
        return Move{pair.first, pair.second};
      }));
}

void must_equal(Shard& shard, const std::map<Tag, Cell>& model) {
  RC_ASSERT(shard.size() == model.size());
  for (const auto& [tag, cell] : model) {
    const Cell* found = shard.find(tag);
    RC_ASSERT(!!found);
    RC_ASSERT(*found == cell);
    RC_ASSERT(shard.limit_of(found) == limit_of(tag));
  }
  RC_ASSERT(contents(shard) == model);
}

RC_GTEST_PROP(ShardProperty, HoldsTheSameKeysAsAMap, ()) {
  LoneShard lone;
  Shard& shard = lone.shard;
  std::map<Tag, Cell> model;
  Cell next = 1;
  for (const auto& move : *rc::gen::resize(300, moves())) {
    const bool there = model.contains(move.tag);
    RC_ASSERT(!!shard.find(move.tag) == there);
    if (move.act == Act::kInsert && !there) {
      RC_ASSERT(!!lone.add(move.tag, next));
      model[move.tag] = next++;
    } else if (move.act == Act::kErase && there) {
      shard.erase(move.tag);
      model.erase(move.tag);
    } else if (move.act == Act::kGrow && shard.line_count() < 64) {
      RC_ASSERT(shard.grow(lone.budget));
    } else if (move.act == Act::kChange && there) {
      *shard.find(move.tag) = next;
      model[move.tag] = next++;
    }
    must_equal(shard, model);
  }
}

// find() first looks at the slot that was found last. That slot may have moved, or may now be free
// or belong to another key.
TEST(ShardTest, FindsAKeyAtItsPresentPlace) {
  constexpr Tag kLow = 1;
  constexpr Tag kHigh = Tag{0xFFFF'FFFF} << 32 | kLow;  // Equal in the half that the shard stores.
  LoneShard lone;
  Shard& shard = lone.shard;
  lone.add(kLow, 10);
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(shard.grow(lone.budget));
  lone.add(kHigh, 20);
  ASSERT_EQ(*shard.find(kHigh), 20u);
  EXPECT_EQ(*shard.find(kLow), 10u);
  ASSERT_EQ(*shard.find(kHigh), 20u);
  shard.shrink(lone.budget);
  EXPECT_EQ(*shard.find(kHigh), 20u);
  shard.erase(kHigh);
  EXPECT_EQ(shard.find(kHigh), nullptr);
  EXPECT_EQ(*shard.find(kLow), 10u);
  lone.add(kHigh, 30);
  EXPECT_EQ(*shard.find(kHigh), 30u);
}

// Erasing can move tags to lines that the walk has already visited, so one round may miss some; a
// round that erases nothing has seen all.
RC_GTEST_PROP(ShardProperty, AWalkThatErasesEnds, ()) {
  LoneShard lone;
  for (const Tag tag : *rc::gen::resize(200, rc::gen::container<std::set<Tag>>(tags()))) {
    lone.add(tag, 7);
  }
  const auto doomed = *rc::gen::resize(200, rc::gen::container<std::set<Tag>>(tags()));
  auto model = contents(lone.shard);
  const std::size_t most_rounds = model.size() + 1;
  std::size_t before = 0;
  for (std::size_t round = 0; round < most_rounds && before != model.size(); ++round) {
    before = model.size();
    for (std::uint32_t i = 0; i < lone.shard.line_count(); ++i) {
      lone.shard.visit_next([&](const Slot& slot) {
        RC_ASSERT(model.at(slot.tag) == slot.cell);
        if (!doomed.contains(slot.tag)) return;
        lone.shard.erase(slot.tag);
        model.erase(slot.tag);
      });
    }
  }
  for (const Tag tag : doomed) RC_ASSERT(!lone.shard.find(tag));
  must_equal(lone.shard, model);
}

// Without moving another tag, even of a full line.
TEST(Shard, ATagTakesOverASlotOfItsHomeLine) {
  LoneShard lone;
  lone.shard.grow(lone.budget);
  for (Tag tag = 1; tag <= 5; ++tag) lone.add(tag, tag);  // The last is in the next line.
  EXPECT_EQ(lone.shard.find_in_home(9, [](const Slot& slot) { return slot.tag == 5; }), nullptr);
  Cell* cell = lone.shard.find_in_home(9, [](const Slot& slot) {
    EXPECT_EQ(slot.cell, slot.tag);
    return slot.tag == 2 && slot.limit == limit_of(2);
  });
  ASSERT_NE(cell, nullptr);
  Shard::take_over(cell, 9);
  lone.shard.limit_of(cell) = limit_of(9);
  EXPECT_EQ(std::exchange(*cell, 90), 0U);
  EXPECT_EQ(contents(lone.shard), (std::map<Tag, Cell>{{1, 1}, {9, 90}, {3, 3}, {4, 4}, {5, 5}}));
  EXPECT_EQ(*lone.shard.find(9), 90U);
  EXPECT_EQ(lone.shard.find(2), nullptr);
}

TEST(Shard, WithoutRoomItKeepsItsLines) {
  LoneShard lone(100);
  for (Tag tag = 1; tag <= 3; ++tag) EXPECT_NE(lone.add(tag, tag), nullptr);
  EXPECT_EQ(lone.add(4, 4), nullptr);
  EXPECT_EQ(contents(lone.shard), (std::map<Tag, Cell>{{1, 1}, {2, 2}, {3, 3}}));
}

TEST(Shard, GrowsByAFifthAndFreesTheOldLines) {
  LoneShard lone;
  for (Tag tag = 1; tag <= 3000; ++tag) lone.add(tag << 32 | tag, tag);
  EXPECT_EQ(lone.shard.size(), 3000U);
  EXPECT_GE(lone.shard.line_count(), 1000U);
  EXPECT_LE(lone.shard.line_count(), 1250U);
  EXPECT_EQ(lone.budget.used_bytes(),
            Budget::lines_bytes(lone.shard.line_count() * 72) + Budget::kOverheadBytes);
  lone.shard.release(lone.budget);
  EXPECT_EQ(lone.budget.used_bytes(), 0U);
}

TEST(Shard, TakesAtMost30BytesAKeyWhileItGrows) {
  LoneShard lone;
  constexpr Tag kKeys = 20'000;
  constexpr Tag kFew = 700;  // Fewer fill only a few pages.
  for (Tag i = 1; i <= kKeys; ++i) {
    lone.add(i * 0x9E37'79B9'7F4A'7C15, i);
    if (i >= kFew) ASSERT_LE(lone.budget.used_bytes(), 30 * i) << i << " keys";
  }
}

TEST(Shard, CandidatesAreSoughtUntilThereAreEnough) {
  LoneShard lone;
  for (Tag tag = 1; tag <= 4'000; ++tag) lone.add(tag * 0x9E37'79B9'7F4A'7C15, tag);
  const std::size_t lines = lone.shard.line_count();
  ASSERT_GT(lines, Shard::kMostCandidateLines);
  int visits = 0;
  lone.shard.visit_candidates(1, [&](const Slot&) { return ++visits == 40; });
  EXPECT_GE(visits, 40);
  EXPECT_LT(visits, 40 + static_cast<int>(Line::kSlots));
  visits = 0;
  lone.shard.visit_candidates(1, [&](const Slot&) { return ++visits == 0; });
  EXPECT_GT(visits, 200);
  EXPECT_LE(visits, static_cast<int>(Shard::kMostCandidateLines * Line::kSlots));
}

}  // namespace
}  // namespace sluice::memory

#include "stores/memory/cell.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <deque>
#include <ostream>
#include <utility>
#include <vector>

#include "testing/lone_records.h"

namespace sluice::memory {
namespace {

constexpr std::size_t kCellBytes = 256 * 1024;
constexpr std::int64_t kLimit = 65'536;

// A ring in the cell of a key, of which nothing is in use at the end.
struct LoneCell : LoneRecords {
  explicit LoneCell(std::size_t max_bytes = std::size_t{1} << 26) : LoneRecords(max_bytes) {}

  Ring ring() const {
    return is_record(cell) ? static_cast<RingRecord*>(record_of(cell))->view() : Ring{};
  }
  // Reserves and commits a change, as a store does.
  bool change(const RingChange& change) {
    const auto reserves = [&](Records& records) {
      return reserve_ring(records, cell, change.count, kLimit);
    };
    if (!reserve(reserves)) return false;
    commit_ring(records(), cell, change);
    return true;
  }
  // Takes one unit at the stamp, and drops the oldest `gone` entries.
  bool append(Instant stamp_ns, std::uint32_t gone = 0) {
    const Ring now = ring();
    const std::uint64_t total = now.size == 0 ? 0 : now.at(now.size - 1).total;
    return change({.first = gone, .count = now.size - gone + 1, .newest = {stamp_ns, total + 1}});
  }
};

struct RingModel {
  std::uint64_t base = 0;
  std::deque<RingEntry> entries;

  std::uint64_t total() const { return entries.empty() ? base : entries.back().total; }
};

void must_equal(const Ring& ring, const RingModel& model) {
  RC_ASSERT(ring.size == model.entries.size());
  RC_ASSERT(ring.base == model.base);
  for (std::uint32_t i = 0; i < ring.size; ++i) {
    RC_ASSERT(ring.at(i).stamp_ns == model.entries[i].stamp_ns);
    RC_ASSERT(ring.at(i).total == model.entries[i].total);
  }
}

enum class RingAct { kAppend, kJoin, kTruncate, kClear };

struct RingMove {
  RingAct act;
  /// The percentage of entries that are dropped, from the oldest on.
  std::uint32_t forgotten;
  /// The percentage of the rest that is kept, if it is truncated.
  std::uint32_t kept;
};

void showValue(const RingMove& move, std::ostream& out) {
  out << "{" << static_cast<int>(move.act) << ", " << move.forgotten << ", " << move.kept << "}";
}

rc::Gen<RingMove> ring_moves() {
  return rc::gen::construct<RingMove>(
      rc::gen::weightedElement<RingAct>({{60, RingAct::kAppend},
                                         {5, RingAct::kJoin},
                                         {3, RingAct::kTruncate},
                                         {1, RingAct::kClear}}),
      rc::gen::weightedElement<std::uint32_t>({{40, 0}, {8, 1}, {2, 10}, {1, 50}, {1, 100}}),
      rc::gen::inRange<std::uint32_t>(0, 101));
}

// Makes a change from a move, and applies it to the model.
RingChange apply(const RingMove& move, RingModel& model) {
  auto& entries = model.entries;
  if (move.act == RingAct::kClear || (entries.empty() && move.act != RingAct::kAppend)) {
    model = {};
    return {};
  }
  auto gone = static_cast<std::uint32_t>(entries.size() * move.forgotten / 100);
  if (move.act != RingAct::kAppend && gone == entries.size()) --gone;
  const std::uint64_t total = model.total();
  const Instant newest_ns = entries.empty() ? 0 : entries.back().stamp_ns;
  for (std::uint32_t i = 0; i < gone; ++i) {
    model.base = entries.front().total;
    entries.pop_front();
  }
  if (move.act == RingAct::kAppend) {
    entries.push_back({newest_ns + 3, total + 2});
  } else if (move.act == RingAct::kJoin) {
    entries.back().total += 5;
  } else {
    entries.resize(1 + (entries.size() - 1) * move.kept / 100);
  }
  return {
      .first = gone, .count = static_cast<std::uint32_t>(entries.size()), .newest = entries.back()};
}

RC_GTEST_PROP(RingCellProperty, HoldsTheSameEntriesAsAList, ()) {
  LoneCell lone;
  RingModel model;
  for (const auto& move :
       *rc::gen::resize(600, rc::gen::container<std::vector<RingMove>>(ring_moves()))) {
    RC_ASSERT(lone.change(apply(move, model)));
    if (move.kept < 10) RC_ASSERT(lone.move());
    must_equal(lone.ring(), model);
  }
  lone.records().release(std::exchange(lone.cell, 0));
  RC_ASSERT(lone.used_bytes() == std::size_t{0});
}

TEST(RingCell, ShrinksAfterABurst) {
  LoneCell lone;
  for (Instant stamp = 1; stamp <= 10'000; ++stamp) lone.append(stamp);
  const std::size_t full = lone.used_bytes();
  lone.append(10'001, 9'990);
  EXPECT_EQ(lone.ring().size, 11U);
  EXPECT_EQ(lone.ring().base, 9'990U);
  EXPECT_EQ(lone.ring().at(0).stamp_ns, 9'991);
  EXPECT_LE(lone.used_bytes(), full / 100);
}

TEST(RingCell, HasRoomForNoMoreEntriesThanTheLimitHasUnits) {
  LoneCell lone;
  for (Instant stamp = 1; stamp <= kLimit; ++stamp) ASSERT_TRUE(lone.append(stamp));
  EXPECT_EQ(lone.ring().capacity, kLimit);
  EXPECT_TRUE(lone.append(kLimit + 1)) << "what is charged beyond the limit has room";
}

TEST(RingCell, WithoutRoomToShrinkItStaysUnchanged) {
  LoneCell lone(kCellBytes);
  for (Instant stamp = 1; stamp <= 500; ++stamp) ASSERT_TRUE(lone.append(stamp));
  lone.leave_no_room();
  ASSERT_TRUE(lone.append(501, 495));
  EXPECT_EQ(lone.ring().size, 6U);
  EXPECT_EQ(lone.ring().at(5).stamp_ns, 501);
}

TEST(RingCell, WithoutMoreEntriesItNeedsNoRoom) {
  LoneCell lone(kCellBytes);
  Instant stamp = 0;
  do {
    ASSERT_TRUE(lone.append(++stamp));
  } while (lone.ring().size < lone.ring().capacity);
  lone.leave_no_room();
  EXPECT_TRUE(lone.append(++stamp, 1));
  EXPECT_FALSE(lone.append(++stamp));

  LoneCell fresh(kCellBytes);
  fresh.leave_no_room();
  EXPECT_TRUE(fresh.change({}));
  EXPECT_EQ(fresh.cell, 0U);
}

// A window of a nanosecond leaves one bit for the count.
TEST(StateCell, IsARecordOnlyWhileItCannotBePacked) {
  LoneCell lone;
  const FixedWindow::Params params{.limit = 100, .window = Divider(1), .first = false};
  for (const std::int64_t count : {1, 2, 100, 1, 3}) {
    const FixedWindow::State state{kEndOfTime - 1, count};
    ASSERT_TRUE(lone.reserve(
        [&](Records& records) { return reserve<FixedWindow>(records, params, lone.cell, state); }));
    commit<FixedWindow>(lone.records(), params, lone.cell, state);
    EXPECT_EQ(is_record(lone.cell), count > 1);
    EXPECT_EQ(lone.used_bytes() > 0, count > 1);
    const auto loaded = load<FixedWindow>(params, lone.cell);
    EXPECT_EQ(loaded.start_ns, kEndOfTime - 1);
    EXPECT_EQ(loaded.count, count);
  }
}

TEST(StateCell, ReservingChangesNoState) {
  LoneCell lone;
  const FixedWindow::Params params{.limit = 100, .window = Divider(1), .first = false};
  const FixedWindow::State one{7, 1};
  const auto has_room_for = [&](const FixedWindow::State& state) {
    return lone.reserve(
        [&](Records& records) { return reserve<FixedWindow>(records, params, lone.cell, state); });
  };
  ASSERT_TRUE(has_room_for(one));
  commit<FixedWindow>(lone.records(), params, lone.cell, one);
  ASSERT_TRUE(has_room_for({7, 2}));
  EXPECT_EQ(load<FixedWindow>(params, lone.cell).start_ns, 7);
  EXPECT_EQ(load<FixedWindow>(params, lone.cell).count, 1);
}

}  // namespace
}  // namespace sluice::memory

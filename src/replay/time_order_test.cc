#include "replay/time_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

namespace sluice::replay {
namespace {

/// Keeps what it gets: "time key cost status path".
class Collector : public RequestSink {
 public:
  std::span<const std::string_view> details() const override { return kDetails; }

  void add(const LoggedRequest& request) override {
    unflushed_.emplace_back(request.key);
    std::string text = std::to_string(request.time_ns) + ' ' + std::string(request.key) + ' ' +
                       std::to_string(request.cost);
    for (const std::string_view detail : request.details) text += ' ' + std::string(detail);
    times.push_back(request.time_ns);
    texts.push_back(std::move(text));
    keys_.emplace_back(request.key);
  }

  void flush() override {
    for (std::size_t i = 0; i < unflushed_.size(); ++i) EXPECT_EQ(keys_[i], unflushed_[i]);
    unflushed_.clear();
    keys_.clear();
  }

  std::vector<Instant> times;
  std::vector<std::string> texts;

 private:
  static constexpr std::string_view kDetails[] = {"status", "agent", "path"};
  /// The keys since the last flush(), as copies and as they were given.
  std::vector<std::string> unflushed_;
  std::vector<std::string_view> keys_;
};

class TimeOrderTest : public ::testing::Test {
 protected:
  TimeOrderTest() { key_.bind(*reader_); }

  void add(TimeOrder& order, Instant now, const std::string& key = "a", std::int64_t cost = 1,
           std::size_t file = 0) {
    const std::string status = std::to_string(now % 7);
    const std::string path = "/" + key;
    const std::vector<std::string_view> fields = {{}, key, status, path};
    order.add({.time_ns = now, .cost = cost, .fields = fields}, key_, details_, file);
  }

  std::string unused_;
  const std::unique_ptr<LineReader> reader_ = make_csv_reader("time,key,status,path", unused_);
  KeyTemplate key_{"{key}"};
  Collector sink_;
  TimeOrder::DetailSlots details_ = TimeOrder(sink_, 1).detail_slots(*reader_);
};

TEST_F(TimeOrderTest, PassesOnWhatCameInOrder) {
  TimeOrder order(sink_, 4);
  for (int i = 0; i < 100; ++i) add(order, i, "k" + std::to_string(i), i);
  order.flush();
  ASSERT_EQ(sink_.texts.size(), 100U);
  for (int i = 0; i < 100; ++i) {
    const std::string number = std::to_string(i);
    EXPECT_EQ(
        sink_.texts[static_cast<std::size_t>(i)],
        number + " k" + number + ' ' + number + ' ' + std::to_string(i % 7) + "  /k" + number);
  }
  EXPECT_EQ(order.late(), 0U);
}

TEST_F(TimeOrderTest, RequestsWithEqualTimesAreInTheOrderOfTheirFiles) {
  TimeOrder order(sink_, 50);
  std::mt19937 random(1);
  std::vector<std::tuple<Instant, std::size_t, int>> expected;
  for (int i = 0; i < 100; ++i) {
    const Instant now = i / 20 + static_cast<Instant>(random() % 3);
    const std::size_t file = random() % 3;
    expected.emplace_back(now, file, i);
    add(order, now, std::to_string(i), 1, file);
  }
  order.flush();
  std::ranges::sort(expected);
  ASSERT_EQ(sink_.texts.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const auto& [now, file, number] = expected[i];
    const std::string begin = std::to_string(now) + ' ' + std::to_string(number) + ' ';
    EXPECT_TRUE(sink_.texts[i].starts_with(begin)) << sink_.texts[i] << " is not " << begin;
  }
}

// Blocks of reach + 1 in random order: each comes after at most `reach` later ones.
TEST_F(TimeOrderTest, PutsInOrderWhatIsOutOfPlaceByItsReach) {
  constexpr int kReach = 50;
  std::mt19937 random(1);
  std::vector<int> times(40 * (kReach + 1));
  for (std::size_t i = 0; i < times.size(); ++i) times[i] = static_cast<int>(i);
  for (auto block = times.begin(); block != times.end(); block += kReach + 1) {
    std::shuffle(block, block + kReach + 1, random);
  }
  TimeOrder order(sink_, kReach);
  for (const int time : times) add(order, time, "a key that needs memory of its own");
  order.flush();
  EXPECT_TRUE(std::ranges::is_sorted(sink_.times));
  EXPECT_EQ(sink_.times.size(), times.size());
  EXPECT_EQ(order.late(), 0U);
}

TEST_F(TimeOrderTest, ALateRecordIsPassedOnAndCounted) {
  TimeOrder order(sink_, 4);
  for (int i = 10; i < 30; ++i) add(order, i);
  const Instant passed = sink_.times.back();
  add(order, 3);
  add(order, passed - 1);
  order.flush();
  EXPECT_EQ(order.late(), 2U);
  EXPECT_EQ(order.most_late_ns(), passed - 3);
  EXPECT_EQ(sink_.times.size(), 22U);
}

TEST_F(TimeOrderTest, LongKeysAreNotAllKept) {
  const std::string key(TimeOrder::kMaxTextBytes / 4, 'x');
  TimeOrder order(sink_);
  for (int i = 0; i < 4; ++i) add(order, i, key);
  EXPECT_GE(sink_.times.size(), 2U);
  order.flush();
  EXPECT_EQ(sink_.times.size(), 4U);
}

}  // namespace
}  // namespace sluice::replay

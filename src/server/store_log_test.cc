#include "server/store_log.h"

#include <gtest/gtest.h>

#include <chrono>
#include <string>

namespace sluice {
namespace {

using namespace std::chrono_literals;

class StoreLogTest : public testing::Test {
 protected:
  using Kind = StoreEvent::Kind;

  // The line of JSON for this event, from its level on; empty if there is none.
  std::string line(Kind kind) {
    std::string written;
    const StoreObserver observer = log_store_events(
        [&](const LogEvent& event) { written = log_line(event, LogFormat::kJson, 0); });
    observer({.kind = kind, .message = "it", .health = health_});
    const std::size_t begin = written.find("\"level\"");
    return begin == std::string::npos ? written : written.substr(begin);
  }

  StoreHealth health_;
};

TEST_F(StoreLogTest, AnEventHasItsMembers) {
  health_.times_lost = 1;
  EXPECT_EQ(line(Kind::kUp), R"("level":"info","event":"store_back","message":"it"})"
                             "\n");
  health_.reason = "why";
  EXPECT_EQ(line(Kind::kDown),
            R"("level":"warning","event":"store_lost","message":"it","reason":"why"})"
            "\n");
  health_.late_round_trip = 250ms;
  health_.deadline = 125ms;
  EXPECT_EQ(line(Kind::kLate), R"("level":"warning","event":"store_late","message":"it",)"
                               R"("round_trip_seconds":0.25,"deadline_seconds":0.125})"
                               "\n");
  health_.refusal = "OOM";
  EXPECT_EQ(line(Kind::kRefused),
            R"("level":"warning","event":"store_refuses","message":"it","reason":"OOM"})"
            "\n");
  health_.clock_lag = 2500ms;
  EXPECT_EQ(line(Kind::kClock),
            R"("level":"warning","event":"clock_behind","message":"it","behind_seconds":2.5})"
            "\n");
  health_.evicted = 3;
  health_.without_room = 4;
  EXPECT_EQ(line(Kind::kFull), R"("level":"warning","event":"store_full","message":"it",)"
                               R"("evicted":3,"without_room":4})"
                               "\n");
}

TEST_F(StoreLogTest, TheFirstConnectionHasNoLine) {
  EXPECT_EQ(line(Kind::kUp), "");
}

}  // namespace
}  // namespace sluice

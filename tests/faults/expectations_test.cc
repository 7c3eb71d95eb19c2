// Tests of expect_in_time() and expect_whole().

#include "faults/expectations.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <deque>

namespace sluice::faults {
namespace {

// Tries with a lateness, on a machine with a lateness.
struct Lateness {
  Clock::duration late{0};
  Clock::duration machine{0};
};

void make_tries(std::deque<Lateness> tries) {
  expect_in_time("a try", [&] {
    const Lateness next = tries.front();
    tries.pop_front();
    return Try{.machine_late = next.machine,
               .is_in_time = [next](Clock::duration room) { return next.late <= room; }};
  });
}

TEST(ExpectInTime, ForgivesTwoLateTriesOnAQuietMachine) {
  make_tries({{.late = 20ms}, {.late = 20ms}, {.late = 0ms}});
}

TEST(ExpectInTime, ForgivesNoThirdLateTry) {
  EXPECT_NONFATAL_FAILURE(
      make_tries({{.late = 20ms}, {.late = 20ms}, {.late = 20ms}, {.late = 0ms}}),
      "the machine was quiet in 3 tries");
}

TEST(ExpectInTime, TriesAgainIfTheMachineIsLate) {
  make_tries({{.late = 20ms, .machine = 5ms},
              {.late = 20ms},
              {.late = 20ms, .machine = 5ms},
              {.late = 0ms, .machine = 5ms}});
}

TEST(ExpectInTime, GivesALateMachineItsLatenessAsRoom) {
  std::deque<Lateness> tries(6, {.late = 6ms, .machine = 5ms});
  make_tries(tries);
  tries[1] = tries[4] = {.late = 100ms};  // A process was held, which the canary does not show.
  make_tries(tries);
  tries.assign(6, {.late = 60ms, .machine = 5ms});
  EXPECT_NONFATAL_FAILURE(make_tries(tries), "the machine was quiet in 0 tries");
  tries[0] = tries[1] = {.late = 60ms};
  tries[2].machine = 20ms;
  EXPECT_NONFATAL_FAILURE(make_tries(tries), "the machine was quiet in 2 tries");
}

// A round in which this process has answered at once: for `time` of a fault of one second, and
// before the fault, which does not count.
Round hurried_for(Clock::duration time, Clock::duration machine_late = 0ms) {
  Round round{
      .began = Clock::time_point(1s), .ended = Clock::time_point(2s), .machine_late = machine_late};
  for (Clock::time_point asked(500ms); asked < round.ended + kRecovery + 100ms; asked += 1ms) {
    const bool is_hurried = asked < round.began + time;
    round.report.samples.push_back(
        {.asked = asked, .took = 1ms, .source = is_hurried ? Source::kLocal : Source::kStore});
  }
  return round;
}

TEST(ExpectWhole, ForgivesAStallAfterWhichTheServerSeemsLost) {
  int rounds = 0;
  expect_whole({.name = "a server that seems lost for 50 ms", .never_given_up = true}, [&] {
    ++rounds;
    return hurried_for(50ms);
  });
  EXPECT_EQ(rounds, 1);
}

TEST(ExpectWhole, FailsIfTheServerCountsAsLost) {
  EXPECT_NONFATAL_FAILURE(
      expect_whole({.name = "a server that is given up", .never_given_up = true},
                   [] { return hurried_for(200ms); }),
      "the machine was quiet in 3 tries");
}

TEST(ExpectWhole, FailsIfCallersNoticeWhatTheyShouldNot) {
  EXPECT_NONFATAL_FAILURE(expect_whole({.name = "a fault that is noticed", .unnoticed = true},
                                       [] { return hurried_for(80ms); }),
                          "the machine was quiet in 3 tries");
}

TEST(ExpectWhole, FailsIfTooFewAreDecidedInstead) {
  EXPECT_NONFATAL_FAILURE(
      expect_whole({.name = "a fault with too few local decisions", .least_instead = 601},
                   [] { return hurried_for(100ms); }),
      "the machine was quiet in 3 tries");
}

TEST(ExpectWhole, FailsIfAKeyIsAdmittedBeyondItsBound) {
  EXPECT_NONFATAL_FAILURE(
      expect_whole({.name = "a key with 15 of 10"},
                   [] {
                     Round round = hurried_for(0ms);
                     round.report.admitted = {{.key = "k", .limit = 10, .otherwise = 15}};
                     return round;
                   }),
      "bound.in_all");
}

TEST(ExpectWhole, ForgivesItIfTheMachineMakesCallersMissTheDeadline) {
  expect_whole({.name = "a server that is given up by a late machine", .never_given_up = true},
               [] { return hurried_for(200ms, 5ms); });
}

}  // namespace
}  // namespace sluice::faults

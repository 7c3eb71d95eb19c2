// What counts as being in time.

#include "faults/expectations.h"

#include <gtest/gtest-spi.h>
#include <gtest/gtest.h>

#include <deque>

namespace sluice::faults {
namespace {

// Tries that are late by so much, on a machine that is.
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

TEST(ExpectInTime, ForgivesOneLateTryOnAQuietMachine) {
  make_tries({{.late = 20ms}, {.late = 0ms}});
}

TEST(ExpectInTime, ForgivesNoSecondOne) {
  EXPECT_NONFATAL_FAILURE(make_tries({{.late = 20ms}, {.late = 20ms}, {.late = 0ms}}),
                          "the machine was quiet in 2 tries");
}

TEST(ExpectInTime, TriesAgainWhereTheMachineIsLate) {
  make_tries({{.late = 20ms, .machine = 5ms},
              {.late = 20ms},
              {.late = 20ms, .machine = 5ms},
              {.late = 0ms, .machine = 5ms}});
}

TEST(ExpectInTime, GivesAMachineThatIsAlwaysLateSoMuchRoom) {
  make_tries(std::deque<Lateness>(6, {.late = 6ms, .machine = 5ms}));
  EXPECT_NONFATAL_FAILURE(make_tries(std::deque<Lateness>(6, {.late = 60ms, .machine = 5ms})),
                          "the machine was quiet in 0 tries");
}

}  // namespace
}  // namespace sluice::faults

#include "replay/charts.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace sluice::replay {
namespace {

/// Charts of two limits, fed without a store.
class ChartsOfTwo {
 public:
  explicit ChartsOfTwo(std::size_t max_key_steps = Charts::kMaxKeySteps)
      : charts(2, max_key_steps) {}

  Tally::KeyId add(std::string_view key, Instant time_ns, std::array<bool, 2> denied,
                   std::int64_t remaining = 0) {
    const Tally::KeyId id = tally.count(key);
    std::array<Decision, 2> decisions;
    std::array<const Decision*, 2> pointers{};
    for (std::size_t limit = 0; limit < 2; ++limit) {
      decisions[limit] = {.allowed = !denied[limit], .remaining = remaining};
      pointers[limit] = &decisions[limit];
      if (denied[limit]) tally.count_denied(limit, id, time_ns);
    }
    charts.add(tally, id, time_ns, pointers);
    return id;
  }

  Tally tally{{"one", "two"}};
  Charts charts;
};

TEST(Charts, CountWhatOnlyOneLimitDenies) {
  ChartsOfTwo two;
  two.add("a", 0, {true, false});
  two.add("a", 0, {true, true});
  two.add("a", 0, {false, true});
  two.add("b", 0, {false, true});
  EXPECT_EQ(two.charts.only_denied_by(1, 0), 2U);
  EXPECT_EQ(two.charts.only_denied_by(0, 1), 1U);
}

// The keys that each limit denies most keep all of their steps, however many keys there are.
TEST(Charts, ForgetTheKeysThatAreDeniedLeast) {
  constexpr std::size_t kRoom = 2400;
  ChartsOfTwo two(kRoom);
  std::uint64_t steps_of_b = 0;
  Tally::KeyId a = 0;
  Tally::KeyId b = 0;
  for (int i = 0; i < 5000; ++i) {
    const Instant now = i * kSecondNs;
    a = two.add("a", now, {true, false});
    if (i % 2 == 0) b = two.add("b", now, {false, true});
    steps_of_b += i % 2 == 0 ? 1 : 0;
    two.add("other " + std::to_string(i), now, {i % 7 == 0, false});
  }
  std::size_t kept = 0;
  for (Tally::KeyId id = 0; id < two.tally.summary().keys_seen; ++id) {
    if (const Timeline* timeline = two.charts.of(id)) kept += timeline->steps().size();
  }
  EXPECT_LE(kept, kRoom);
  std::uint64_t of_a = 0;
  for (const StepCounts& step : two.charts.of(a)->steps()) of_a += step.requests;
  ASSERT_NE(two.charts.of(b), nullptr);
  std::uint64_t of_b = 0;
  for (const StepCounts& step : two.charts.of(b)->steps()) of_b += step.requests;
  EXPECT_EQ(of_a, 5000U);
  EXPECT_EQ(of_b, steps_of_b);
}

}  // namespace
}  // namespace sluice::replay

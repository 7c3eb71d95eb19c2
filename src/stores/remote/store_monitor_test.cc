// What a store tells of its servers and of their replies.

#include "stores/remote/store_monitor.h"

#include <gtest/gtest.h>

namespace sluice {
namespace {

using namespace std::chrono_literals;
using Clock = StoreMonitor::Clock;
using Server = StoreMonitor::Server;
using State = StoreHealth::State;

class StoreMonitorTest : public testing::Test {
 protected:
  StoreHealth health() const {
    StoreHealth health;
    monitor_.add_to(health);
    return health;
  }
  // The thread looks for replies all the time.
  void reply(int times, std::chrono::nanoseconds round_trip) {
    for (int i = 0; i < times; ++i) {
      const Clock::time_point sent;
      monitor_.on_all_read(sent + round_trip);
      monitor_.on_reply(sent, sent + round_trip);
    }
  }

  StoreMonitor monitor_{10ms};
  Server one_{monitor_};
};

TEST_F(StoreMonitorTest, AStoreIsUpOnceAllItsServersAre) {
  Server two(monitor_);
  EXPECT_EQ(health().state, State::kConnecting);
  EXPECT_EQ(health().deadline, 10ms);
  one_.on_up();
  EXPECT_EQ(health().state, State::kConnecting);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  Server three(monitor_);
  one_.on_up();
  EXPECT_EQ(health().state, State::kUp) << "a server that is added is not lost";
}

TEST_F(StoreMonitorTest, AStoreIsDownAsLongAsOneOfItsServersIs) {
  Server two(monitor_);
  one_.on_up();
  two.on_broken("two is away");
  EXPECT_EQ(health().state, State::kDown);
  EXPECT_EQ(health().reason, "two is away");
  EXPECT_EQ(health().times_lost, 1U);
  const auto since = health().since;
  two.on_broken("two is still away");
  EXPECT_EQ(health().reason, "two is still away");
  EXPECT_EQ(health().since, since);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  EXPECT_GE(health().since, since);
  EXPECT_EQ(health().times_lost, 1U);
}

// Whichever of them it is, and while attempts to reach all of them go on failing.
TEST_F(StoreMonitorTest, OfLostServersItTellsTheOneThatWasLostLast) {
  Server two(monitor_);
  Server three(monitor_);
  const auto servers = {&one_, &two, &three};
  for (Server* last : servers) {
    for (Server* server : servers) server->on_up();
    const auto fail_others = [&] {
      for (Server* server : servers) {
        if (server != last) server->on_broken("another is away");
      }
    };
    fail_others();
    fail_others();
    last->on_broken("the last closed");
    last->on_broken("the last is away");
    fail_others();
    EXPECT_EQ(health().reason, "the last is away");
    last->on_up();
    EXPECT_EQ(health().reason, "another is away");
  }
}

TEST_F(StoreMonitorTest, AServerThatIsNotUsedAnyMoreDoesNotCount) {
  one_.on_up();
  {
    Server former(monitor_);
    former.on_broken("former is away");
    EXPECT_EQ(health().state, State::kDown);
  }
  EXPECT_EQ(health().state, State::kUp);
}

TEST_F(StoreMonitorTest, RoundTripsAreThoseOfTheLastReplies) {
  reply(2000, 9ms);
  reply(1000, 1ms);
  reply(24, 5ms);
  EXPECT_EQ(health().round_trip_p50, 1ms);
  EXPECT_EQ(health().round_trip_p99, 5ms);
}

TEST_F(StoreMonitorTest, EightLateRepliesInARowAreNotedOnce) {
  reply(7, 12ms);
  reply(1, 10ms);  // In time.
  reply(7, 12ms);
  EXPECT_EQ(health().times_late, 0U);
  EXPECT_EQ(health().late_replies, 14U);
  reply(1, 13ms);
  EXPECT_EQ(health().times_late, 1U);
  EXPECT_EQ(health().late_round_trip, 13ms);
  EXPECT_EQ(health().sufficient_deadline, 26ms);
  reply(100, 12ms);
  reply(7, 1ms);
  reply(8, 12ms);
  EXPECT_EQ(health().times_late, 1U);
  reply(8, 1ms);
  reply(8, 12ms);
  EXPECT_EQ(health().times_late, 2U);
  EXPECT_EQ(health().late_round_trip, 12ms);
}

// The reply may have been there in time.
TEST_F(StoreMonitorTest, WhatAThreadReadsLateSaysNothingOfTheStore) {
  const Clock::time_point sent;
  monitor_.on_all_read(sent + 8ms);
  for (int i = 0; i < 8; ++i) monitor_.on_reply(sent, sent + 50ms);
  EXPECT_EQ(health().times_late, 0U);
  EXPECT_EQ(health().late_replies, 0U);
}

}  // namespace
}  // namespace sluice

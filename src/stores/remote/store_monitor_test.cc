#include "stores/remote/store_monitor.h"

#include <gtest/gtest.h>

#include "stores/remote/server_health.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
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
      const StoreMonitor::Clock::time_point sent;
      monitor_.on_all_read(sent + round_trip);
      monitor_.on_reply(sent, sent + round_trip);
    }
  }

  StoreMonitor monitor_{10ms};
  ServerHealth one_{"one", 10ms, &monitor_};
};

TEST_F(StoreMonitorTest, ANewStoreIsConnecting) {
  EXPECT_EQ(health().state, State::kConnecting);
  EXPECT_EQ(health().deadline, 10ms);
}

TEST_F(StoreMonitorTest, AStoreIsUpOnceAllItsServersAre) {
  ServerHealth two("two", 10ms, &monitor_);
  one_.on_up();
  EXPECT_EQ(health().state, State::kConnecting);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  ServerHealth three("three", 10ms, &monitor_);
  one_.on_up();
  EXPECT_EQ(health().state, State::kUp) << "a server that is added is not lost";
}

TEST_F(StoreMonitorTest, AStoreIsDownAsLongAsOneOfItsServersIs) {
  ServerHealth two("two", 10ms, &monitor_);
  one_.on_up();
  two.on_down("two is away");
  EXPECT_EQ(health().state, State::kDown);
  EXPECT_EQ(health().reason, "two is away");
  EXPECT_EQ(health().times_lost, 1U);
  const auto since = health().since;
  two.on_down("two is still away");
  EXPECT_EQ(health().reason, "two is still away");
  EXPECT_EQ(health().since, since);
  two.on_up();
  EXPECT_EQ(health().state, State::kUp);
  EXPECT_GE(health().since, since);
  EXPECT_EQ(health().times_lost, 1U);
}

// Whichever of them it is, and while attempts to reach all of them go on failing.
TEST_F(StoreMonitorTest, OfLostServersItTellsTheOneThatWasLostLast) {
  ServerHealth two("two", 10ms, &monitor_);
  ServerHealth three("three", 10ms, &monitor_);
  for (ServerHealth* last : {&one_, &two, &three}) {
    for (ServerHealth* server : {&one_, &two, &three}) server->on_up();
    for (ServerHealth* server : {&one_, &two, &three}) {
      if (server != last) server->on_down("another is away"), server->on_down("another is away");
    }
    last->on_down("the last closed");
    last->on_down("the last is away");
    for (ServerHealth* server : {&one_, &two, &three}) {
      if (server != last) server->on_down("another is away");
    }
    EXPECT_EQ(health().reason, "the last is away");
    last->on_up();
    EXPECT_EQ(health().reason, "another is away");
  }
}

TEST_F(StoreMonitorTest, AnImmediateReconnectionIsNoLoss) {
  one_.on_up();
  one_.on_down("one closed the connection");
  EXPECT_EQ(health().state, State::kUp);
  one_.on_down("cannot connect to one");
  EXPECT_EQ(health().state, State::kDown);
}

TEST_F(StoreMonitorTest, AServerThatIsNotUsedAnyMoreDoesNotCount) {
  one_.on_up();
  {
    ServerHealth former("former", 10ms, &monitor_);
    former.on_down("former is away");
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
  const StoreMonitor::Clock::time_point sent;
  monitor_.on_all_read(sent + 8ms);
  for (int i = 0; i < 8; ++i) monitor_.on_reply(sent, sent + 50ms);
  EXPECT_EQ(health().times_late, 0U);
  EXPECT_EQ(health().late_replies, 0U);
}

}  // namespace
}  // namespace sluice

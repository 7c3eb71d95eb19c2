#include "limiter/store_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <memory>

#include "fallback/fallback_store.h"
#include "sluice/limiter.h"
#include "testing/scripted_store.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using State = StoreHealth::State;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class StoreEventsTest : public testing::Test {
 protected:
  std::vector<std::string> messages() {
    std::vector<std::string> found;
    for (const StoreEvent& event : events_.since_last(health_, now_)) {
      found.push_back(event.message);
    }
    return found;
  }
  void go_up() { health_.state = State::kUp; }
  void connect() {
    go_up();
    messages();
  }
  void go_down(const char* why) {
    health_.state = State::kDown;
    health_.reason = why;
    ++health_.times_lost;
  }

  /// What happens again and again is told once, and again only after a minute without it.
  void expect_told_after_a_quiet_minute(const std::function<void()>& happens,
                                        const std::string& told) {
    connect();
    happens();
    EXPECT_THAT(messages(), ElementsAre("the store redis://h " + told));
    for (int i = 0; i < 3; ++i) {
      now_ += 59s;
      happens();
      EXPECT_THAT(messages(), IsEmpty());
    }
    now_ += 1min;
    EXPECT_THAT(messages(), IsEmpty());
    happens();
    EXPECT_THAT(messages(), SizeIs(1));
  }

  StoreEvents events_{"redis://h"};
  StoreHealth health_;
  StoreEvents::TimePoint now_{1h};
};

TEST_F(StoreEventsTest, AStoreThatStaysAsItIsHasNone) {
  EXPECT_THAT(messages(), IsEmpty());
  go_up();
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is connected"));
  health_.late_replies = 100;
  EXPECT_THAT(messages(), IsEmpty());
}

TEST_F(StoreEventsTest, ALossAndAReturnAreEachToldOnce) {
  connect();
  go_down("h is away");
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is lost: h is away"));
  EXPECT_THAT(messages(), IsEmpty());
  go_up();
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is back"));
}

TEST_F(StoreEventsTest, ALossThatIsOverIsToldWithItsEnd) {
  connect();
  go_down("h is away");
  go_up();
  EXPECT_THAT(messages(),
              ElementsAre("the store redis://h is lost: h is away", "the store redis://h is back"));
}

TEST_F(StoreEventsTest, AReturnThatIsOverIsToldWithItsEnd) {
  go_down("h is away");
  messages();
  go_up();
  go_down("h is away again");
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is back",
                                      "the store redis://h is lost: h is away again"));
}

TEST_F(StoreEventsTest, AStoreThatComesAndGoesIsToldOnceInAMinuteAfterAWhile) {
  connect();
  const auto expect_loss = [&](std::size_t told) {
    go_down("why");
    EXPECT_THAT(messages(), SizeIs(told));
    now_ += 1s;
    go_up();
    EXPECT_THAT(messages(), SizeIs(told));
  };
  for (int i = 0; i < 16; ++i) expect_loss(1);
  for (int i = 0; i < 50; ++i) expect_loss(0);
  now_ += 10s;
  expect_loss(1);
  go_down("why");
  EXPECT_THAT(messages(), IsEmpty());
  now_ += 1min;
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is lost: why"));
  go_up();
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is back"));
  now_ += 1min;
  for (int i = 0; i < 16; ++i) expect_loss(1);
  expect_loss(0);
}

TEST_F(StoreEventsTest, EachReasonOfALossIsToldOnce) {
  connect();
  go_down("h refuses");
  messages();
  health_.reason = "h wants a password";
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is lost: h wants a password"));
  health_.reason = "h refuses";
  EXPECT_THAT(messages(), IsEmpty()) << "it was told";
  std::size_t told = 2;
  for (int i = 0; i < 100; ++i) {
    health_.reason = "reason " + std::to_string(i);
    told += messages().size();
  }
  EXPECT_EQ(told, 16U);
  for (int minute = 1; minute < 3; ++minute) {
    now_ += 1min - 1ns;
    EXPECT_THAT(messages(), IsEmpty());
    now_ += 1ns;
    EXPECT_THAT(messages().size(), 1U) << "one is told each minute";
    health_.reason += " and another";
    EXPECT_THAT(messages(), IsEmpty());
  }
  go_up();
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is back"));
  go_down("h refuses");
  EXPECT_THAT(messages(), ElementsAre("the store redis://h is lost: h refuses"));
}

TEST_F(StoreEventsTest, LatenessIsReportedWithASufficientDeadline) {
  health_.deadline = 10ms;
  health_.late_round_trip = 11'200us;
  health_.sufficient_deadline = 23ms;
  expect_told_after_a_quiet_minute(
      [this] { ++health_.times_late; },
      "answers later than the deadline of 10ms: after up to 12ms; deadline=23ms would be enough");
}

TEST_F(StoreEventsTest, AFullStoreIsTold) {
  expect_told_after_a_quiet_minute(
      [this] { ++health_.evicted; },
      "is full: so far 1 keys were evicted and 0 requests for new keys found no room");
  now_ += 1min;
  health_.without_room = 100;
  EXPECT_THAT(messages(), ElementsAre(HasSubstr("keys were evicted and 100 requests")));
}

TEST_F(StoreEventsTest, AClockThatIsBehindIsTold) {
  health_.late_clock = "this process's clock";
  health_.clock_lag = 2s;
  expect_told_after_a_quiet_minute(
      [this] { ++health_.clock_behind; },
      "has keys ahead of the clock: this process's clock is behind by 2s or more");
}

TEST_F(StoreEventsTest, EachRefusalIsTold) {
  const auto refuse = [this](const char* refusal) {
    health_.refusal = refusal;
    ++health_.refused;
  };
  expect_told_after_a_quiet_minute([&] { refuse("OOM"); }, "refuses requests: OOM");
  // An error that goes on does not hide another one.
  refuse("NOPERM");
  EXPECT_THAT(messages(), ElementsAre("the store redis://h refuses requests: NOPERM"));
  for (int i = 0; i < 3; ++i) {
    now_ += 31s;
    refuse("OOM");
    EXPECT_THAT(messages(), IsEmpty()) << "it has gone on";
  }
}

TEST(StoreObserver, IsToldThatAMemoryStoreIsFull) {
  std::promise<StoreEvent> full;
  const auto store = open_store("memory:?max_bytes=1048576", [&](const StoreEvent& event) {
    if (event.kind == StoreEvent::Kind::kFull) full.set_value(event);
  });
  Limiter limiter(store, Limit("token_bucket 2/1h"));
  for (int i = 0; i < 100'000; ++i) limiter.check("key" + std::to_string(i));
  auto told = full.get_future();
  ASSERT_EQ(told.wait_for(10s), std::future_status::ready);
  EXPECT_THAT(told.get().message, HasSubstr("the store memory:?max_bytes=1048576 is full"));
  EXPECT_GT(health(*store).evicted, 0U);
  EXPECT_EQ(health(*store).state, State::kUp);
}

TEST(StoreObserver, DecisionsAreCountedByAStoreOnAnotherMachine) {
  const auto shared =
      std::make_shared<FallbackStore>(std::make_shared<ScriptedStore>(), FallbackOptions());
  const auto memory = open_store("memory:");
  const Limit limit("token_bucket 1/1h", "limit");
  Limiter limiters[] = {{shared, limit}, {memory, limit}};
  for (Limiter& limiter : limiters) EXPECT_TRUE(limiter.check("k").allowed);
  EXPECT_THAT(decision_counts(*memory), IsEmpty());
  EXPECT_EQ(decision_counts(*shared).size(), 1U);
}

}  // namespace
}  // namespace sluice

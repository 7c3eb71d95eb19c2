// The system has no memory for what a server says: whoever asked is told of that, at once.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <semaphore>
#include <string>
#include <thread>
#include <vector>

#include "net/fake_server_test.h"
#include "net/refused_memory_test.h"
#include "net/run_on_loop_test.h"
#include "stores/redis/carrier.h"
#include "stores/redis/direct_call.h"
#include "stores/redis/lane_under_test.h"
#include "stores/redis/slots.h"
#include "stores/redis/subscriber.h"
#include "stores/redis/sweep.h"

namespace sluice::redis {
namespace {

constexpr std::size_t kMany = 1'000;
constexpr std::string_view kToldSo = "out of memory";

// What is asked gathers, and travels in one call.
class RedisNoMemory : public LaneOfATest {
 protected:
  void submit(Asker& asker) {
    prepare(asker);
    ASSERT_TRUE(courier_.submit(asker.inquiry, Courier::Clock::now() + kNoHurry));
  }

  Exchange* next_call(std::uint32_t& number) {
    Exchange* call = nullptr;
    play([&] {
      number = lane_.number_call() + 1;
      call = lane_.next_exchange();
      std::string command;
      call->write(command);
    });
    return call;
  }

  // Where allocations of so many bytes fail.
  template <class Event>
  void play_without_memory(std::size_t bytes, const Event& event) {
    play([&] {
      refused_bytes = bytes;
      EXPECT_NO_THROW(event());
      refused_bytes = kNoneRefused;
    });
  }

  void expect_told(Asker& asker) {
    asker.inquiry.wait();
    EXPECT_EQ(asker.decision.source, Source::kUnanswered);
    EXPECT_EQ(asker.inquiry.fault, kToldSo);
  }

  void carry(Errand& errand) override { lane_.carry(errand); }
  void on_refused(Errand& errand, Lane&, std::string_view text) override {
    courier_.fail(errand, text);
  }

  const std::string long_text_ = std::string(kMany, 'x');
};

TEST_F(RedisNoMemory, AllInACallAreToldWhereItsErrorCannotBeKept) {
  Asker first;
  Asker second;
  submit(first);
  submit(second);
  std::uint32_t number = 0;
  Exchange* const call = next_call(number);
  const std::string reply = "-ERR " + long_text_ + "\r\n";
  play_without_memory(kMany, [&] { call->on_reply(reply); });
  expect_told(first);
  expect_told(second);
  // The call is used again, for which nothing is left of the first.
  Asker third;
  submit(third);
  EXPECT_EQ(next_call(number), call);
  play([&] { call->on_reply(admitted_by(number)); });
  third.inquiry.wait();
  EXPECT_TRUE(third.decision.allowed) << third.inquiry.fault;
}

TEST_F(RedisNoMemory, AllInACallAreToldWhereItCannotBeSentAgain) {
  Asker asker;
  submit(asker);
  std::uint32_t number = 0;
  Exchange* const call = next_call(number);
  play_without_memory(kMany, [&] { call->on_reply("-NOSCRIPT\r\n"); });
  expect_told(asker);
}

// Who has been told of a decision is not told of a loss as well.
TEST_F(RedisNoMemory, OnlyWhoIsNotAnsweredYetIsTold) {
  Asker first;
  Asker second;
  submit(first);
  submit(second);
  std::uint32_t number = 0;
  Exchange* const call = next_call(number);
  std::string reply = admitted_by(number);  // To the first; the script has failed for the second.
  reply.replace(0, sizeof "*1\r\n$13" - 1, "*2\r\n$14");
  reply.insert(reply.size() - 2, 1, '\4');
  reply += '$' + std::to_string(kMany) + "\r\n" + long_text_ + "\r\n";
  // There is room to keep what it says, and none to say whose words they are.
  play_without_memory(kMany + lane_.name().size(), [&] { call->on_reply(reply); });
  first.inquiry.wait();
  EXPECT_TRUE(first.decision.allowed);
  EXPECT_EQ(first.inquiry.fault, "");
  expect_told(second);
}

TEST_F(RedisNoMemory, WhoIsLostIsTold) {
  Asker asker;
  submit(asker);
  std::uint32_t number = 0;
  Exchange* const call = next_call(number);
  play_without_memory(kMany, [&] { call->on_lost(Loss::kUnknown, long_text_); });
  expect_told(asker);
}

TEST_F(RedisNoMemory, ADirectCallerWhoIsLostIsTold) {
  Asker asker;
  prepare(asker);
  DirectCall call({}, lane_);
  ASSERT_TRUE(call.load(asker.inquiry));
  play_without_memory(kMany, [&] { call.on_lost(Loss::kUnknown, long_text_); });
  ASSERT_TRUE(call.await(Courier::Clock::now() + kNoHurry));
  EXPECT_EQ(call.outcome(), DirectCall::Outcome::kLost);
  EXPECT_EQ(call.why(), kToldSo);
}

TEST_F(RedisNoMemory, WhoAsksForAMapIsTold) {
  std::string reply = "*" + std::to_string(kMany) + "\r\n";
  for (std::size_t i = 0; i < kMany; ++i) reply += ":1\r\n";
  std::string why;
  play([&] { lane_.ask("PING\r\n", [&](const Reply*, std::string_view fault) { why = fault; }); });
  play_without_memory(kMany, [&] { lane_.next_exchange()->on_reply(reply); });
  EXPECT_EQ(why, kToldSo);
}

TEST_F(RedisNoMemory, AConnectionThatIsAstrayIsGivenUp) {
  play_without_memory(1, [&] { lane_.lose_track(); });
  EXPECT_TRUE(end({}));
}

TEST_F(RedisNoMemory, WhoAskedForAMapIsToldOfTheLoss) {
  std::string why;
  play([&] { lane_.ask("PING\r\n", [&](const Reply*, std::string_view fault) { why = fault; }); });
  play_without_memory(1, [&] { lane_.on_down("it is gone"); });
  EXPECT_EQ(why, "it is gone");
}

TEST_F(RedisNoMemory, AServerWhoseFaultCannotBeKeptIsBrokenAllTheSame) {
  play_without_memory(kMany, [&] {
    lane_.on_down(long_text_);
    lane_.on_down(long_text_);
  });
  Asker asker;
  submit(asker);
  expect_told(asker);
}

// The store's own carrier, which has one server. Unless its fleet is started, it is never
// connected: the test plays it.
class RedisCarrierWithoutMemory : public testing::Test {
 protected:
  struct Asker {
    Request request;
    Decision decision;
    AwaitedInquiry inquiry;
  };

  explicit RedisCarrierWithoutMemory(std::size_t connections = 1,
                                     Topology topology = Topology::kSingle)
      : options_{.topology = topology,
                 .servers = {server_.endpoint()},
                 .primary_name = "it",
                 .deadline = kNoHurry,
                 .connections = connections,
                 .virtual_time = true} {
    carrier_.open(courier_);
    courier_.start([] {});
  }
  ~RedisCarrierWithoutMemory() override {
    courier_.stop();
    carrier_.close();
  }

  void play(const std::function<void()>& events) {
    std::promise<void> played;
    courier_.loop().post([&] {
      events();
      played.set_value();
    });
    played.get_future().get();
  }

  void submit(Asker& asker, std::string_view key = "k") {
    asker.request = {.limit = &limit_.definition(), .space = &space_, .key = key};
    asker.inquiry.requests = {&asker.request, 1};
    asker.inquiry.decisions = {&asker.decision, 1};
    ASSERT_TRUE(courier_.submit(asker.inquiry, Courier::Clock::now() + kNoHurry));
  }

  // Awaits that something is to be sent.
  Exchange& next_call(std::uint16_t slot = 0) {
    Exchange* call = nullptr;
    while (call == nullptr) {
      play([&] { call = carrier_.fleet().way(slot).lane->next_exchange(); });
    }
    return *call;
  }

  // On the courier's thread: there is no memory at all.
  static void without_memory(const std::function<void()>& events) {
    refused_bytes = 1;
    EXPECT_NO_THROW(events());
    refused_bytes = kNoneRefused;
  }

  const Limit limit_{"fixed_window 9/1d anchor=first"};
  RedisSpace space_{"sluice", limit_.definition()};
  FakeServer server_;
  const RedisOptions options_;
  RedisCarrier carrier_{options_};
  Courier courier_{carrier_, {.deadline = kNoHurry}};
};

TEST_F(RedisCarrierWithoutMemory, WhoRestsIsAskedAgain) {
  Asker asker;
  submit(asker);
  Exchange& call = next_call();
  play([&] { without_memory([&] { call.on_reply("-BUSY\r\n"); }); });
  Exchange& again = next_call();
  play([&] { again.on_lost(Loss::kUnknown, "it is gone"); });
  asker.inquiry.wait();
  EXPECT_EQ(asker.inquiry.fault, "it is gone");
}

TEST_F(RedisCarrierWithoutMemory, WhatASweepHasLeftIsSaid) {
  const std::string why(kMany, 'x');
  play([this] { carrier_.on_up(only_lane(carrier_.fleet())); });
  auto swept = std::async(std::launch::async, [this] {
    return sweep(courier_, carrier_, "sluice:", std::chrono::milliseconds(kNoHurry));
  });
  Exchange& scan = next_call();
  play([&] { without_memory([&] { scan.on_lost(Loss::kUnknown, why); }); });
  EXPECT_EQ(swept.get(),
            "of the keys that begin with 'sluice:' 0 were removed, and others may be left, to "
            "lapse after a day: out of memory");
}

// There is no room to note that the lane is to send something.
TEST_F(RedisCarrierWithoutMemory, WhoCannotBeCarriedIsTold) {
  play([] { refused_bytes = sizeof(Lane*); });
  Asker asker;
  submit(asker);
  asker.inquiry.wait();
  play([] { refused_bytes = kNoneRefused; });
  EXPECT_EQ(asker.inquiry.fault, kToldSo);
}

class RedisLanesWithoutMemory : public RedisCarrierWithoutMemory {
 protected:
  RedisLanesWithoutMemory() : RedisCarrierWithoutMemory(2) {}

  std::uint16_t slot_of_key(std::string_view key) const {
    std::string name;
    append_redis_key(name, space_, key);
    return slot_of(name);
  }
};

// Of two that have rested there is room to note the lane of one.
TEST_F(RedisLanesWithoutMemory, WhoCannotBeSentAgainIsTold) {
  std::string key = "a";
  while ((slot_of_key(key) + slot_of_key("k")) % 2 == 0) ++key[0];
  Asker first;
  submit(first);
  Exchange& call = next_call(slot_of_key("k"));
  Asker second;
  submit(second, key);
  Exchange& other = next_call(slot_of_key(key));
  play([&] {
    call.on_reply("-BUSY\r\n");
    other.on_reply("-BUSY\r\n");
    refused_bytes = 2 * sizeof(Lane*);
  });
  second.inquiry.wait();
  play([] { refused_bytes = kNoneRefused; });
  EXPECT_EQ(second.inquiry.fault, kToldSo);
  Exchange& again = next_call(slot_of_key("k"));
  play([&] { again.on_lost(Loss::kUnknown, "it is gone"); });
  first.inquiry.wait();
  EXPECT_EQ(first.inquiry.fault, "it is gone");
}

class RedisClusterWithoutMemory : public RedisCarrierWithoutMemory {
 protected:
  RedisClusterWithoutMemory() : RedisCarrierWithoutMemory(1, Topology::kCluster) {}
};

TEST_F(RedisClusterWithoutMemory, TheMapIsAskedForLater) {
  play([this] {
    Fleet& fleet = carrier_.fleet();
    Lane& node = *fleet.servers().front();
    without_memory([&] {
      node.on_down("it is gone");
      EXPECT_THROW(node.on_up(), std::bad_alloc);
    });
    node.on_up();
    Exchange* const map = node.next_exchange();
    ASSERT_NE(map, nullptr);
    for (int i = 0; i < 2; ++i) node.on_down("it is gone");
    EXPECT_EQ(fleet.way(0).why, "it is gone");
    without_memory([&] { map->on_lost(Loss::kUnknown, "it is gone"); });
    EXPECT_EQ(fleet.way(0).why, kToldSo);
  });
}

class RedisSentinelWithoutMemory : public RedisCarrierWithoutMemory {
 protected:
  RedisSentinelWithoutMemory() : RedisCarrierWithoutMemory(1, Topology::kSentinel) {}
};

// The sentinel names itself.
TEST_F(RedisSentinelWithoutMemory, SentinelsAreAskedAgainAllTheSame) {
  const std::string port = std::to_string(server_.endpoint().port);
  const std::string answer =
      "*2\r\n$9\r\n127.0.0.1\r\n$" + std::to_string(port.size()) + "\r\n" + port + "\r\n";
  constexpr int kGreetingLines = 10;
  constexpr int kQuestionLines = 7;
  play([this] { carrier_.fleet().start(); });
  Peer sentinel = server_.accept();
  sentinel.lines(kGreetingLines);
  sentinel.send("+PONG\r\n+OK\r\n");
  const std::string question = sentinel.lines(kQuestionLines);
  EXPECT_THAT(question, testing::HasSubstr("get-master-addr-by-name"));
  sentinel.send(answer);
  const Peer primary = server_.accept();
  play([this] {
    Lane& lane = *carrier_.fleet().servers().front();
    without_memory([&] { lane.on_down("it is gone"); });
  });
  // Two may have been asked before.
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sentinel.lines(kQuestionLines), question);
    sentinel.send(answer);
  }
}

// It tries until there is memory.
TEST(RedisSubscriberWithoutMemory, IsConnectedLater) {
  const RedisOptions options;
  FakeServer server;
  EventLoop loop;
  std::counting_semaphore<> attempts{0};
  Subscriber subscriber(options, loop, [&] {
    attempts.release();
    return std::vector{server.endpoint()};
  });
  std::thread thread([&] {
    refused_bytes = 1;
    loop.run();
  });
  const auto watch = subscriber.watch("x", [] {});
  for (int i = 0; i < 3; ++i) attempts.acquire();
  const auto restore = [] { refused_bytes = kNoneRefused; };
  run_on_loop(loop, restore);
  EXPECT_EQ(server.accept().line(), "*3\r\n");
  loop.stop();
  thread.join();
}

}  // namespace
}  // namespace sluice::redis

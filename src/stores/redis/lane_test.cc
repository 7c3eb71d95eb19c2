// Which reply is whose, on a connection that the test plays: it hands over each reply itself. That
// the connection is given up shows by what follows: once it is lost, nobody waits for the next.

#include "stores/redis/lane.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "core/waiting.h"
#include "sluice/limit.h"
#include "stores/redis/direct_call.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

using namespace std::chrono_literals;

constexpr auto kNoHurry = 60s;
constexpr std::string_view kNobodys = ":5\r\n";

// The reply to the call of this number, which takes one unit of a fresh key.
std::string admitted_by(std::uint32_t number) {
  constexpr Instant kAt = 1'700'000'000'000'000'000;
  std::array<char, 13> answers{};
  std::memcpy(answers.data(), &number, sizeof number);
  std::memcpy(answers.data() + sizeof number, &kAt, sizeof kAt);
  answers.back() = '\1';
  return "*1\r\n$13\r\n" + std::string(answers.begin(), answers.end()) + "\r\n";
}

class LaneOfATest : public testing::Test, public Carrier, public LaneOwner {
 protected:
  // One request, and the call of the script in which it travels alone.
  struct Asker {
    Request request;
    Decision decision;
    AwaitedInquiry inquiry;
    Exchange* call = nullptr;
    std::uint32_t number = 0;
  };

  LaneOfATest() {
    courier_.start([this] { lane_.on_up(); });
  }
  ~LaneOfATest() override { courier_.stop(); }

  // On the courier's thread, which is the lane's.
  void play(const std::function<void()>& events) {
    std::promise<void> played;
    courier_.loop().post([&] {
      events();
      played.set_value();
    });
    played.get_future().get();
  }

  void prepare(Asker& asker) {
    asker.request = {.limit = &limit_.definition(), .space = &space_, .key = "k"};
    asker.inquiry.requests = {&asker.request, 1};
    asker.inquiry.decisions = {&asker.decision, 1};
  }

  void ask(Asker& asker) {
    prepare(asker);
    ASSERT_TRUE(courier_.submit(asker.inquiry, Courier::Clock::now() + kNoHurry));
    play([&] {
      lane_.carry(*carried_);
      asker.number = lane_.number_call() + 1;
      asker.call = lane_.next_exchange();
      std::string command;
      asker.call->write(command);
    });
  }

  // The connection ends, and what was under way on it is lost. True where it was given up before.
  bool end(std::initializer_list<Exchange*> under_way) {
    bool given_up = false;
    play([&] {
      for (Exchange* exchange : under_way) exchange->on_lost(Loss::kUnknown, "it is gone");
      lane_.on_down("it is gone");
      given_up = lane_.is_broken();
      EXPECT_EQ(lane_.next_exchange(), nullptr) << "asked again";
    });
    return given_up;
  }

  void expect_unanswered(Asker& asker, const std::string& why) {
    asker.inquiry.wait();
    EXPECT_EQ(asker.decision.source, Source::kUnanswered);
    EXPECT_NE(asker.inquiry.fault.find(why), std::string::npos) << asker.inquiry.fault;
  }

  void carry(Errand& errand) override { carried_ = &errand; }
  void dispatch() override {}
  std::string_view abandon(Errand&) override { return "it is late"; }
  void on_up(Lane&) override {}
  void on_down(Lane&, std::string_view) override {}
  void on_refused(Errand& errand, Lane&, std::string_view text) override {
    courier_.fail(errand, "refused: " + std::string(text));
  }

  const Limit limit_{"fixed_window 9/1d anchor=first"};
  RedisSpace space_{"sluice", limit_.definition()};
  const RedisOptions options_{.servers = {}, .deadline = kNoHurry};
  Courier courier_{*this, {.deadline = kNoHurry}};
  Lane lane_{{.options = options_, .courier = courier_}, {.host = "127.0.0.1", .port = 1}, *this};
  Errand* carried_ = nullptr;
};

TEST_F(LaneOfATest, GivesEachCallItsOwnReply) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] {
    first.call->on_reply(admitted_by(first.number));
    second.call->on_reply(admitted_by(second.number));
  });
  for (Asker* asker : {&first, &second}) {
    asker->inquiry.wait();
    EXPECT_TRUE(asker->decision.allowed);
    EXPECT_EQ(asker->decision.source, Source::kStore);
    EXPECT_EQ(asker->inquiry.fault, "");
  }
  EXPECT_FALSE(end({}));
}

TEST_F(LaneOfATest, IsGivenUpByOneReplyTooMany) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply(kNobodys); });
  expect_unanswered(first, "cannot be read");
  EXPECT_TRUE(end({second.call}));
  expect_unanswered(second, "it is gone");
}

TEST_F(LaneOfATest, IsGivenUpByOneReplyTooFew) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply(admitted_by(second.number)); });
  expect_unanswered(first, "not the one to this call");
  EXPECT_TRUE(end({second.call}));
  expect_unanswered(second, "it is gone");
}

// An error names no call. Whoever is told of it is not told what the store decided for another, and
// the reply that comes after it shows that it was one too many.
TEST_F(LaneOfATest, IsGivenUpByTheReplyAfterOneErrorTooMany) {
  Asker first;
  Asker second;
  ask(first);
  ask(second);
  play([&] { first.call->on_reply("-ERR out of nowhere\r\n"); });
  expect_unanswered(first, "refused: ERR out of nowhere");
  play([&] { second.call->on_reply(admitted_by(first.number)); });
  expect_unanswered(second, "not the one to this call");
  EXPECT_TRUE(end({}));
}

TEST_F(LaneOfATest, IsGivenUpByAReplyToACommandThatCannotBeRead) {
  std::string why;
  const auto answer_with = [&](std::string_view reply) {
    play([&] {
      lane_.ask("PING\r\n", [&](const Reply* tree, std::string_view fault) {
        EXPECT_EQ(tree, nullptr);
        why = fault;
      });
      lane_.next_exchange()->on_reply(reply);
    });
  };
  answer_with("-ERR no\r\n");
  EXPECT_EQ(why, "ERR no");
  EXPECT_FALSE(end({}));
  play([&] { lane_.on_up(); });
  answer_with("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
  EXPECT_EQ(why, "the reply cannot be read");
  EXPECT_TRUE(end({}));
}

// A caller drives the connection itself, stays for the reply, and is told what went wrong.
TEST_F(LaneOfATest, IsGivenUpByAReplyThatIsNotADirectCallers) {
  for (const bool readable : {true, false}) {
    play([&] { lane_.on_up(); });
    Asker asker;
    prepare(asker);
    DirectCall call({}, lane_);
    ASSERT_TRUE(call.load(asker.inquiry));
    const std::uint32_t before = lane_.number_call();
    std::string command;
    call.write(command);
    call.on_reply(readable ? admitted_by(before) : std::string(kNobodys));
    EXPECT_EQ(call.outcome(), DirectCall::Outcome::kRead);
    EXPECT_NE(call.first_fault(), "");
    EXPECT_EQ(asker.decision.source, Source::kUnanswered);
    EXPECT_TRUE(end({}));
  }
}

// The reply comes when the caller has gone: nobody reads it, and yet it is to be its own.
TEST_F(LaneOfATest, IsGivenUpByAReplyThatIsNotADirectCallersWhoHasGone) {
  for (const bool own : {true, false}) {
    play([&] { lane_.on_up(); });
    auto asker = std::make_unique<Asker>();
    prepare(*asker);
    auto call = std::make_unique<DirectCall>(CallOptions{}, lane_);
    ASSERT_TRUE(call->load(asker->inquiry));
    const std::uint32_t before = lane_.number_call();
    std::string command;
    call->write(command);
    ASSERT_TRUE(call->leave());
    asker.reset();
    call.release()->on_reply(admitted_by(own ? before + 1 : before));
    EXPECT_EQ(end({}), !own);
  }
}

}  // namespace
}  // namespace sluice::redis

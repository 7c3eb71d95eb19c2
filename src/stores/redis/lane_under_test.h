// The lane's tests' connection, which the test plays: it hands over each reply itself.

#pragma once

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <string>
#include <string_view>

#include "core/waiting.h"
#include "sluice/limit.h"
#include "stores/redis/lane.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {

inline constexpr std::chrono::seconds kNoHurry{60};

// The reply to the call of this number, which takes one unit of a fresh key.
inline std::string admitted_by(std::uint32_t number) {
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

}  // namespace sluice::redis

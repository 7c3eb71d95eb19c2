#include "stores/remote/courier.h"

#include <gmock/gmock.h>

#include <atomic>
#include <deque>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace sluice {
namespace {

using namespace std::chrono_literals;

constexpr auto kLong = 60s;

// An inquiry that says when it is answered.
class WatchedInquiry final : public Inquiry {
 public:
  void answered() noexcept override { answered_.set_value(); }
  void wait() { answered_.get_future().get(); }

 private:
  std::promise<void> answered_;
};

// Answers by the key: "now" at once, "later" when dispatched, "fault" never can, others wait.
class FakeCarrier final : public Carrier {
 public:
  Courier* courier = nullptr;
  ErrandList waiting;
  std::vector<Errand*> later;
  std::size_t dispatched = 0;
  std::size_t abandoned = 0;

  void carry(Errand& errand) override {
    const std::string_view key = errand.requests[0].key;
    if (key == "now") return answer(errand);
    if (key == "fault") return courier->fail(errand, "the server is on fire");
    if (key == "later") return later.push_back(&errand);
    waiting.push_back(errand);
  }

  void dispatch() override {
    ++dispatched;
    for (Errand* errand : std::exchange(later, {})) answer(*errand);
  }

  std::string_view abandon(Errand& errand) override {
    ++abandoned;
    ErrandList::take_out(errand);
    return "the server did not answer";
  }

 private:
  void answer(Errand& errand) {
    *errand.decision = {.allowed = true, .limit = errand.requests[0].cost};
    courier->done(errand);
  }
};

class CourierTest : public testing::Test {
 protected:
  CourierTest() {
    carrier_.courier = &courier_;
    courier_.start([] {});
  }

  std::vector<Request> requests(std::initializer_list<std::string_view> keys) {
    std::vector<Request> made;
    for (const auto key : keys) {
      made.push_back({.key = key, .cost = static_cast<std::int64_t>(made.size()) + 1});
    }
    return made;
  }

  struct Asked {
    std::vector<Decision> decisions;
    std::string fault = {};
  };

  Asked ask(const std::vector<Request>& requests, std::chrono::nanoseconds deadline = kLong,
            bool together = false) {
    Asked asked{.decisions = std::vector<Decision>(together ? 1 : requests.size())};
    AwaitedInquiry inquiry;
    inquiry.requests = requests;
    inquiry.decisions = asked.decisions;
    inquiry.together = together;
    try {
      ask_and_wait(courier_, inquiry, Courier::Clock::now() + deadline);
    } catch (const StoreError& error) {
      asked.fault = error.what();
    }
    return asked;
  }

  FakeCarrier carrier_;
  Courier courier_{carrier_, {.deadline = kLong, .max_errands = 8}};
};

TEST_F(CourierTest, EveryRequestOfAnInquiryIsAnErrand) {
  const Asked asked = ask(requests({"now", "later", "now"}));
  ASSERT_EQ(asked.decisions.size(), 3U);
  for (std::int64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(asked.decisions[static_cast<std::size_t>(i)].limit, i + 1);
  }
  EXPECT_EQ(asked.fault, "");
  EXPECT_EQ(carrier_.dispatched, 1U);
}

TEST_F(CourierTest, WhatIsAskedTogetherIsOneErrand) {
  const Asked asked = ask(requests({"later", "now"}), kLong, true);
  ASSERT_EQ(asked.decisions.size(), 1U);
  EXPECT_EQ(asked.decisions[0].limit, 1);
}

TEST_F(CourierTest, AFailedErrandLeavesTheOthersAlone) {
  const Asked asked = ask(requests({"now", "fault", "later"}));
  EXPECT_EQ(asked.decisions[0].source, Source::kStore);
  EXPECT_EQ(asked.decisions[1].source, Source::kUnanswered);
  EXPECT_FALSE(asked.decisions[1].allowed);
  EXPECT_EQ(asked.decisions[2].source, Source::kStore);
  EXPECT_EQ(asked.fault, "the server is on fire");
}

TEST_F(CourierTest, WhatHasNoDecisionAtTheDeadlineIsAbandoned) {
  const Asked asked = ask(requests({"now", "silence"}), 1ms);
  EXPECT_EQ(asked.decisions[0].source, Source::kStore);
  EXPECT_EQ(asked.decisions[1].source, Source::kUnanswered);
  EXPECT_EQ(asked.fault, "the server did not answer");
  EXPECT_EQ(carrier_.abandoned, 1U);
  EXPECT_TRUE(carrier_.waiting.empty());
}

TEST_F(CourierTest, TooMuchIsRefusedAtOnce) {
  const Asked asked =
      ask(requests({"now", "now", "now", "now", "now", "now", "now", "now", "now"}));
  EXPECT_EQ(asked.decisions[8].source, Source::kUnanswered);
  EXPECT_EQ(asked.fault, "too many requests wait for the store");
  // What was refused takes no room.
  EXPECT_EQ(ask(requests({"now", "now", "now", "now", "now", "now", "now", "now"})).fault, "");
}

TEST_F(CourierTest, WhatIsRefusedKeepsNobodyOut) {
  std::atomic<bool> over = false;
  const std::vector<Request> many(9, Request{.key = "now"});
  std::thread other([&] {
    std::vector<Decision> decisions(9);
    WatchedInquiry inquiry;
    inquiry.requests = many;
    inquiry.decisions = decisions;
    while (!over) {
      EXPECT_FALSE(courier_.submit(inquiry, Courier::Clock::now() + kLong));
    }
  });
  int refused = 0;
  for (int i = 0; i < 10'000; ++i) refused += ask(requests({"now"})).fault.empty() ? 0 : 1;
  over = true;
  other.join();
  EXPECT_EQ(refused, 0);
}

TEST(Courier, AnEarlierDeadlineIsKeptWhateverCameBefore) {
  FakeCarrier carrier;
  WatchedInquiry slow;
  WatchedInquiry fast;
  const Request request{.key = "silence"};
  Decision decision;
  slow.requests = fast.requests = {&request, 1};
  slow.decisions = fast.decisions = {&decision, 1};
  {
    Courier courier(carrier, {.deadline = kLong});
    carrier.courier = &courier;
    courier.start([] {});
    ASSERT_TRUE(courier.submit(slow, Courier::Clock::now() + kLong));
    ASSERT_TRUE(courier.submit(fast, Courier::Clock::now() + 1ms));
    fast.wait();
    EXPECT_EQ(fast.fault, "the server did not answer");
    EXPECT_EQ(slow.fault, "");
  }
  slow.wait();
  EXPECT_EQ(slow.fault, "the store was closed before it answered");
}

TEST(Courier, AnswersWhatIsOpenWhenItGoes) {
  FakeCarrier carrier;
  WatchedInquiry inquiry;
  const Request request{.key = "silence"};
  Decision decision{.allowed = true};
  inquiry.requests = {&request, 1};
  inquiry.decisions = {&decision, 1};
  {
    Courier courier(carrier, {.deadline = kLong});
    carrier.courier = &courier;
    courier.start([] {});
    ASSERT_TRUE(courier.submit(inquiry, Courier::Clock::now() + kLong));
  }
  inquiry.wait();
  EXPECT_EQ(decision.source, Source::kUnanswered);
  EXPECT_EQ(inquiry.fault, "the store was closed before it answered");
}

// Asks again when it is answered, on the courier's thread.
class RepeatedInquiry final : public Inquiry {
 public:
  RepeatedInquiry(Courier& courier, std::string_view key, int times)
      : courier_(courier), request_{.key = key}, left_(times) {
    requests = {&request_, 1};
    decisions = {&decision_, 1};
  }

  void start() {
    if (!courier_.submit(*this)) refused_.set_value(true);
  }
  void answered() noexcept override {
    ++answers;
    if (--left_ > 0) return start();
    refused_.set_value(false);
  }
  // Whether it was refused in the end.
  bool wait() { return refused_.get_future().get(); }

  int answers = 0;

 private:
  Courier& courier_;
  Request request_;
  Decision decision_;
  int left_;
  std::promise<bool> refused_;
};

TEST_F(CourierTest, WhoeverIsAnsweredCanAskAgain) {
  std::deque<RepeatedInquiry> inquiries;
  for (const std::string_view key : {"now", "later", "fault"}) {
    inquiries.emplace_back(courier_, key, 2'000).start();
  }
  // Others are taken meanwhile.
  EXPECT_EQ(ask(requests({"now", "later"})).fault, "");
  for (RepeatedInquiry& one : inquiries) {
    EXPECT_FALSE(one.wait());
    EXPECT_EQ(one.answers, 2'000);
  }
}

// Does something when it is answered.
class FollowedInquiry final : public Inquiry {
 public:
  void answered() noexcept override { then(); }

  std::function<void()> then;
};

// Who is told, on whatever thread, may use all its room at once.
TEST_F(CourierTest, WhatIsAnsweredTakesNoRoomWhenItIsTold) {
  const std::vector<Request> all(8, Request{.key = "now"});
  std::vector<Decision> decisions(16);
  FollowedInquiry first;
  WatchedInquiry second;
  first.requests = second.requests = all;
  first.decisions = std::span(decisions).first(8);
  second.decisions = std::span(decisions).last(8);
  const auto ask_again = [&] {
    EXPECT_TRUE(courier_.submit(second, Courier::Clock::now() + kLong));
  };
  first.then = [&] { std::thread(ask_again).join(); };
  EXPECT_TRUE(courier_.submit(first, Courier::Clock::now() + kLong));
  second.wait();
  EXPECT_EQ(second.fault, "");
}

TEST_F(CourierTest, WhoeverAsksAgainIsRefusedToo) {
  std::promise<void> refused;
  const std::vector<Request> many(9, Request{.key = "now"});
  std::vector<Decision> decisions(9);
  WatchedInquiry inquiry;
  inquiry.requests = many;
  inquiry.decisions = decisions;
  courier_.loop().post([&] {
    EXPECT_FALSE(courier_.submit(inquiry, Courier::Clock::now() + kLong));
    refused.set_value();
  });
  refused.get_future().get();
  EXPECT_EQ(inquiry.fault, "too many requests wait for the store");
  EXPECT_EQ(ask(requests({"now", "now", "now", "now", "now", "now", "now", "now"})).fault, "");
}

// Counts how many it is told of at a time, and tells nobody else.
class CountingListener final : public InquiryListener {
 public:
  void answered(std::span<Inquiry* const> inquiries) noexcept override {
    counts.push_back(inquiries.size());
    told.insert(told.end(), inquiries.begin(), inquiries.end());
  }

  std::vector<std::size_t> counts;
  std::vector<Inquiry*> told;
};

TEST(Courier, TellsAListenerOfThoseThatAreAnsweredTogether) {
  constexpr std::size_t kInquiries = InquiryListener::kMost + 3;
  FakeCarrier carrier;
  Courier courier(carrier, {.deadline = kLong});
  carrier.courier = &courier;
  courier.start([] {});
  CountingListener listener;
  CountingListener another;
  WatchedInquiry alone;
  std::deque<WatchedInquiry> inquiries(kInquiries);
  const Request request{.key = "later"};
  std::vector<Decision> decisions(kInquiries + 1);
  const auto submit = [&](Inquiry& inquiry, std::size_t i) {
    inquiry.requests = {&request, 1};
    inquiry.decisions = {&decisions[i], 1};
    EXPECT_TRUE(courier.submit(inquiry, Courier::Clock::now() + kLong));
  };
  courier.loop().post([&] {
    for (std::size_t i = 0; i < kInquiries; ++i) {
      inquiries[i].listener = i + 1 < kInquiries ? &listener : &another;
      submit(inquiries[i], i);
    }
    submit(alone, kInquiries);
  });
  alone.wait();
  EXPECT_THAT(listener.counts, testing::ElementsAre(InquiryListener::kMost, 2));
  EXPECT_THAT(another.told, testing::ElementsAre(&inquiries.back()));
  for (std::size_t i = 0; i + 1 < kInquiries; ++i) EXPECT_EQ(listener.told[i], &inquiries[i]);
}

TEST(Courier, WhoTakesLongTakesNothingOfTheTimeOfThoseWhoAreToldNext) {
  constexpr auto kDeadline = 100ms;
  FakeCarrier carrier;
  Courier courier(carrier, {.deadline = kDeadline});
  carrier.courier = &courier;
  courier.start([] {});
  const Request later{.key = "later"};
  const Request silence{.key = "silence"};
  std::vector<Decision> decisions(3);
  FollowedInquiry slow;
  FollowedInquiry next;
  WatchedInquiry again;
  slow.requests = next.requests = {&later, 1};
  again.requests = {&silence, 1};
  slow.decisions = {&decisions[0], 1};
  next.decisions = {&decisions[1], 1};
  again.decisions = {&decisions[2], 1};
  slow.then = [&] {
    const auto until = Courier::Clock::now() + 2 * kDeadline;
    while (Courier::Clock::now() < until) {
    }
  };
  Timer reply(courier.loop(), [&] {
    if (!carrier.waiting.empty()) courier.done(carrier.waiting.pop_front());
  });
  next.then = [&] {
    EXPECT_TRUE(courier.submit(again));
    reply.set(1ms);
  };
  courier.loop().post([&] {
    for (Inquiry* inquiry : {&slow, &next}) {
      EXPECT_TRUE(courier.submit(*inquiry, Courier::Clock::now() + kLong));
    }
  });
  again.wait();
  EXPECT_EQ(again.fault, "");
  EXPECT_EQ(carrier.abandoned, 0U);
}

TEST(Courier, ManyThreadsAskAtOnce) {
  FakeCarrier carrier;
  Courier courier(carrier, {.deadline = kLong});
  carrier.courier = &courier;
  courier.start([] {});
  std::vector<std::thread> threads;
  std::atomic<std::int64_t> sum = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (std::int64_t i = 1; i <= 200; ++i) {
        const Request request{.key = i % 2 == 0 ? "now" : "later", .cost = i};
        Decision decision;
        AwaitedInquiry inquiry;
        inquiry.requests = {&request, 1};
        inquiry.decisions = {&decision, 1};
        ask_and_wait(courier, inquiry, Courier::Clock::now() + kLong);
        sum += decision.limit;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), 4 * 200 * 201 / 2);
}

}  // namespace
}  // namespace sluice

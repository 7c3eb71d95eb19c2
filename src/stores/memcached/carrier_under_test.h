#pragma once

#include <gmock/gmock.h>

#include <atomic>
#include <deque>
#include <string>
#include <string_view>
#include <utility>

#include "net/run_on_loop_test.h"
#include "sluice/limit.h"
#include "stores/memcached/carrier.h"
#include "stores/memcached/memcached_space.h"

namespace sluice::memcached {

// For this room's tests: a carrier of one server, whose every reply the test makes. No sockets.

inline constexpr std::string_view kRead = "mg sluice:login:k v c O0\r\nmn\r\n";
inline constexpr Instant kNow = 1'700'000'000'000'000'000;

class WatchedInquiry final : public Inquiry {
 public:
  void answered() noexcept override { is_answered = true; }

  std::atomic<bool> is_answered = false;
};

class MemcachedCarrierTest : public testing::Test {
 protected:
  // One take of `cost`, on its way.
  struct Ask {
    Ask(const Limit& limit, Space& space, std::string_view key, std::int64_t cost)
        : request{.limit = &limit.definition(), .space = &space, .key = key, .cost = cost} {
      inquiry.requests = {&request, 1};
      inquiry.decisions = {&decision, 1};
    }

    Request request;
    Decision decision;
    WatchedInquiry inquiry;
  };

  explicit MemcachedCarrierTest(std::string_view expression = "fixed_window 5/1h")
      : limit_(expression, "login") {
    carrier_.open(courier_);
    lane().attach(
        {.kick = [this] { on_kick(); }, .reconnect = [this](std::string_view) { ++reconnects_; }});
    courier_.start([this] { lane().on_up(); });
  }
  ~MemcachedCarrierTest() override { courier_.stop(); }

  virtual void on_kick() { ++kicks_; }

  Lane& lane() { return *carrier_.lanes().front(); }

  // Runs it on the courier's thread, after all that was asked before.
  template <class Work>
  void there(Work work) {
    run_on_loop(courier_.loop(), work);
    const auto nothing = [] {};
    run_on_loop(courier_.loop(), nothing);  // Who is answered has been told before.
  }

  Ask& ask(std::string_view key, std::int64_t cost = 1, Operation operation = Operation::kTake) {
    Ask& ask = asks_.emplace_back(limit_, space_, key, cost);
    ask.request.operation = operation;
    ask.inquiry.now = now_;
    courier_.submit(ask.inquiry, Courier::Clock::now() + deadline_);
    there([] {});
    return ask;
  }

  // Carries a take of "k" that no caller waits for, so that the test may abandon it.
  Errand& carry_own() {
    Ask& own = asks_.emplace_back(limit_, space_, "k", 1);
    own_errand_.requests = own.inquiry.requests;
    own_errand_.decision = &own.decision;
    own_errand_.now = kNow;
    there([&] { carrier_.carry(own_errand_); });
    return own_errand_;
  }

  // What goes out next; waits for a turn that rests.
  std::string sent() {
    std::string output;
    while (exchange_ == nullptr) there([&] { exchange_ = lane().next_exchange(); });
    there([&] { exchange_->write(output); });
    return output;
  }
  bool is_quiet() {
    Exchange* next = nullptr;
    there([&] { next = lane().next_exchange(); });
    return next == nullptr;
  }
  void answer(std::string_view reply) {
    there([&] { std::exchange(exchange_, nullptr)->on_reply(reply); });
  }
  void lose(Loss loss) {
    there([&] {
      std::exchange(exchange_, nullptr)->on_lost(loss, "memcached a:1 has closed the connection");
      lane().on_down("memcached a:1 has closed the connection");
    });
  }

  // As a server holds the key after so many units.
  std::string value(std::int64_t units, std::uint64_t token) {
    KeyState state;
    state.judge({.limit = &limit_.definition(), .key = "k", .cost = units}, kNow);
    std::string text;
    state.write(text);
    return "VA " + std::to_string(text.size()) + " c" + std::to_string(token) + " O0\r\n" + text +
           "\r\nMN\r\n";
  }

  // Has written the key's first value, in two trips.
  void write_first(std::string_view key, std::int64_t units, std::uint64_t token) {
    const Ask& first = ask(key, units);
    sent();
    answer("EN\r\nMN\r\n");
    sent();
    answer("HD c" + std::to_string(token) + " O0\r\nMN\r\n");
    ASSERT_TRUE(first.inquiry.is_answered);
  }

  const Limit limit_;
  MemcachedSpace space_{"sluice", limit_.definition()};
  MemcachedOptions options_{.servers = {{.host = "a", .port = 1}}};
  std::chrono::nanoseconds deadline_ = std::chrono::hours(1);
  Instant now_ = kNow;
  // Outlive the courier.
  std::deque<Ask> asks_;
  Errand own_errand_;
  MemcachedCarrier carrier_{options_};
  Courier courier_{carrier_, {.deadline = deadline_}};
  Exchange* exchange_ = nullptr;
  int kicks_ = 0;
  int reconnects_ = 0;
};

}  // namespace sluice::memcached

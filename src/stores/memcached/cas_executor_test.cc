// Against a server whose every reply the test makes, without a socket: the tests are the
// connection's pipeline, which is never started.

#include "stores/memcached/cas_executor.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "sluice/limit.h"
#include "stores/memcached/memcached_space.h"
#include "testing/late_answers.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kRead = "mg sluice:login:k v c f O0\r\nmn\r\n";
constexpr std::string_view kMiss = "EN\r\nMN\r\n";
constexpr std::string_view kGone = "memcached a:1 has closed the connection";
constexpr std::string_view kRefused = "memcached a:1: connection refused";
constexpr std::string_view kSilent = "memcached a:1 did not answer within 0s";
constexpr Instant kNow = 1'700'000'000'000'000'000;

// An executor of one server.
class CasExecutorTest : public testing::Test {
 protected:
  // One request, on its way.
  struct Ask {
    Decision decision;
    std::string error;
    std::atomic<bool> is_answered = false;
  };

  explicit CasExecutorTest(std::chrono::nanoseconds deadline = 1h)
      : worker_({.deadline = deadline}), executor_(options_, worker_) {
    connection().on_up();
    worker_.start(executor_);
  }
  ~CasExecutorTest() override { worker_.stop(); }

  Connection& connection() { return *executor_.connections().front(); }

  // Runs it on the worker thread, after all that was asked before, and then reports what it has
  // answered.
  void on_worker(const std::function<void()>& work) {
    std::promise<void> done;
    worker_.post(work);
    worker_.post([&] { worker_.post([&] { done.set_value(); }); });
    done.get_future().get();
  }

  Request request(std::string_view key, std::int64_t cost = 1,
                  Operation operation = Operation::kTake) {
    return {.limit = &limit_.definition(),
            .space = &space_,
            .key = key,
            .operation = operation,
            .cost = cost};
  }
  Ask& ask(std::string_view key, std::int64_t cost = 1, Operation operation = Operation::kTake) {
    return ask(request(key, cost, operation));
  }
  Ask& ask(const Request& asked) {
    Ask& ask = asks_.emplace_back();
    auto batch = std::make_unique<Batch>(std::span(&asked, 1), Batch::Mode::kEach, kNow);
    batch->completion = [&ask](const Batch& answered) {
      ask.decision = answered.decisions()[0];
      ask.error = answered.error();
      ask.is_answered = true;
    };
    worker_.submit(std::move(batch));
    on_worker([] {});
    return ask;
  }

  // What goes out next.
  std::string sent() {
    std::string output;
    if (call_ == nullptr) on_worker([&] { call_ = connection().next_command(); });
    if (call_ == nullptr) throw std::runtime_error("nothing is sent");
    on_worker([&] { call_->write(output); });
    return output;
  }
  bool is_quiet() {
    std::unique_ptr<Command> next;
    on_worker([&] { next = connection().next_command(); });
    return next == nullptr;
  }
  void answer(std::string_view reply) {
    on_worker([&] { std::exchange(call_, nullptr)->on_reply(reply); });
  }
  // Answers what goes out next, and returns that.
  std::string exchange(std::string_view reply) {
    std::string output = sent();
    answer(reply);
    return output;
  }
  void reconnect() {
    on_worker([&] {
      connection().on_down(kGone, false);
      connection().on_up();
    });
  }

  StoreHealth health() {
    StoreHealth health;
    worker_.monitor().add_to(health);
    return health;
  }

  static std::string done(std::uint64_t token) {
    return "HD c" + std::to_string(token) + " O0\r\nMN\r\n";
  }
  // As a server holds the key after so many units.
  std::string value(std::int64_t units, std::uint64_t token, const std::string& flags = " f0") {
    KeyState state;
    state.decide(request("k", units), kNow);
    std::string text;
    state.write(space_, text);
    return "VA " + std::to_string(text.size()) + " c" + std::to_string(token) + flags + " O0\r\n" +
           text + "\r\nMN\r\n";
  }

  // Has written the key's first value, in two round trips.
  void write_first(std::string_view key, std::int64_t units, std::uint64_t token) {
    const Ask& first = ask(key, units);
    exchange(kMiss);
    exchange(done(token));
    ASSERT_TRUE(first.is_answered);
  }

  const Limit limit_{"fixed_window 5/1h", "login"};
  MemcachedSpace space_{"sluice", limit_.definition()};
  MemcachedOptions options_{.servers = {{.host = "a", .port = 1}}, .deadline = 1h};
  // Outlive the worker.
  std::deque<Ask> asks_;
  PendingRequest own_request_;
  RemoteWorker worker_;  // Outlives the executor's timer.
  CasExecutor executor_;
  std::unique_ptr<Command> call_;
};

// Its requests have no time: each is answered as unavailable once it has been routed.
class ImpatientCasExecutorTest : public CasExecutorTest {
 protected:
  ImpatientCasExecutorTest() : CasExecutorTest(0ns) {}

  // Returns the error of a request. It may be failed some time after it was routed.
  std::string error_of_ask(std::string_view key) {
    const Ask& asked = ask(key);
    while (!asked.is_answered) on_worker([] {});
    return asked.error;
  }
  // Asks for these requests and for what comes late; `by_the_deadline` happens on the worker thread
  // before they are answered. Returns the first decision.
  Decision ask_late(const std::vector<Request>& asked, LateAnswers& wanted,
                    const std::function<void()>& by_the_deadline) {
    Decision decision;
    std::atomic<bool> is_answered = false;
    on_worker([&] {
      auto batch = std::make_unique<Batch>(asked, Batch::Mode::kEach, kNow);
      batch->outer.store = &wanted;
      batch->completion = [&](const Batch& answered) {
        decision = answered.decisions()[0];
        is_answered = true;
      };
      worker_.submit(std::move(batch));
      worker_.context().post(by_the_deadline);
    });
    while (!is_answered) on_worker([] {});
    return decision;
  }
  // On the worker thread: what is next goes out.
  void send_next() {
    std::string output;
    call_ = connection().next_command();
    call_->write(output);
  }
};

TEST_F(CasExecutorTest, AKeyThatWasWrittenByALaterClockIsNoticed) {
  const std::int64_t now_s = wall_now() / kSecondNs;
  write_first("other", 1, 3);
  ask("k");
  exchange(value(1, 7, " f" + std::to_string(now_s)));
  EXPECT_THAT(exchange(done(8)), HasSubstr(" F" + std::to_string(now_s / 1000)));
  EXPECT_EQ(health().clock_behind, 0U);
  ask("later");
  exchange(value(1, 9, " f" + std::to_string(now_s + 30)));
  EXPECT_EQ(health().clock_behind, 1U);
  EXPECT_EQ(health().late_clock, "this process's clock");
  EXPECT_GT(health().clock_lag, 1s);
  EXPECT_LE(health().clock_lag, 30s);
}

// Whatever the lost race looks like, the key is read again and judged by what the winner wrote.
TEST_F(CasExecutorTest, ALostRaceIsJudgedByWhatTheWinnerWrote) {
  for (const std::string_view lost : {"EX O0", "NF O0", "NS O0"}) {
    const Ask& first = ask("k", 2);
    const Ask* second = nullptr;
    for (std::uint64_t round = 0; round < 10; ++round) {
      EXPECT_EQ(exchange(value(1, 100 + round)), kRead);
      EXPECT_THAT(sent(), HasSubstr(" C" + std::to_string(100 + round) + " "));
      if (round == 0) second = &ask("k", 3);  // Comes later, and is judged later.
      answer(std::string(lost) + "\r\nMN\r\n");
      EXPECT_FALSE(first.is_answered);
    }
    exchange(value(2, 9));
    exchange("HD O0\r\nMN\r\n");
    EXPECT_EQ(first.decision.remaining, 1);
    EXPECT_TRUE(second->is_answered);
    EXPECT_FALSE(second->decision.allowed);
  }
}

// The limit of a name has become one of another kind, to which the state and its block are none.
TEST_F(CasExecutorTest, ARoundIsOfOneKind) {
  const Limit bucket("token_bucket 7/1h", "login");
  MemcachedSpace other("sluice", bucket.definition());
  const Ask& first = ask("k", 2);
  const Ask& peek = ask({.limit = &bucket.definition(), .space = &other, .key = "k", .cost = 0});
  const Ask& last = ask("k", 2);
  exchange(value(1, 7));
  EXPECT_THAT(exchange(done(8)), HasSubstr(" C7 "));
  EXPECT_EQ(first.decision.remaining, 2);
  EXPECT_FALSE(peek.is_answered);
  EXPECT_EQ(exchange(value(3, 8)), kRead);
  EXPECT_EQ(peek.decision.remaining, 7);
  EXPECT_THAT(exchange(done(9)), HasSubstr(" C8 "));
  EXPECT_EQ(last.decision.remaining, 0);
}

// Its caller's time is up between two rounds: the caller is told why.
TEST_F(CasExecutorTest, ALateCallerIsToldOfLostRaces) {
  Decision decision;
  const Request asked = request("k");
  own_request_.requests = {&asked, 1};
  own_request_.decision = &decision;
  own_request_.now = kNow;
  on_worker([&] { executor_.route(own_request_); });
  std::string why;
  for (const unsigned lost : {1U, 2U}) {
    exchange(value(1, lost));
    exchange("EX O0\r\nMN\r\n");
  }
  on_worker([&] { why = executor_.expire(own_request_); });
  EXPECT_EQ(why,
            "memcached a:1 did not answer within 1h: others changed 'sluice:login:k' first, "
            "2 times");
  EXPECT_FALSE(own_request_.may_be_executed);
  // The next caller joins the same round, without the caller who left.
  const Ask& next = ask("k");
  EXPECT_EQ(exchange(value(5, 90)), kRead);
  EXPECT_TRUE(next.is_answered);
  EXPECT_TRUE(is_quiet());
}

// A server that comes back counts its tokens from 1, so an old one might fit a new value.
TEST_F(CasExecutorTest, ATokenIsNotTakenToAnotherConnection) {
  const Ask& asked = ask("k");
  exchange(value(1, 3));
  reconnect();
  EXPECT_EQ(exchange(kMiss), kRead);
  EXPECT_THAT(exchange("HD O0\r\nMN\r\n"), HasSubstr(" ME "));
  EXPECT_EQ(asked.decision.remaining, 4);
  EXPECT_EQ(health().times_lost, 0U) << "it was renewed at once";
}

// Callers go when their time is up; their keys wait for a connection that is not there yet.
TEST_F(ImpatientCasExecutorTest, RoundsWithoutCallersAreBounded) {
  constexpr std::size_t kMost = CasExecutor::kMaxUnderWay;
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < kMost; ++i) keys.push_back(std::to_string(i));
  std::vector<Request> requests;
  for (const auto& key : keys) requests.push_back(request(key));
  std::atomic<bool> is_answered = false;
  auto all = std::make_unique<Batch>(requests, Batch::Mode::kEach, kNow);
  all->completion = [&](Batch&) { is_answered = true; };
  worker_.submit(std::move(all));
  while (!is_answered) on_worker([] {});
  constexpr std::string_view kTooMany =
      "memcached a:1: more than 100000 keys wait for their servers";
  EXPECT_EQ(error_of_ask("one more"), kTooMany);
  on_worker([&] {
    connection().on_down(kGone, false);
    connection().on_down(kRefused, true);  // Its callers, and their keys, are let go.
    connection().on_up();
  });
  EXPECT_EQ(error_of_ask("one more"), kSilent);
}

TEST_F(CasExecutorTest, AnErrorFailsItsKeyAlone) {
  const Ask& a = ask("a");
  const Ask& b = ask("b");
  exchange("SERVER_ERROR busy\r\nEN O1\r\nMN\r\n");
  EXPECT_EQ(a.error, "memcached a:1: SERVER_ERROR busy");
  EXPECT_FALSE(b.is_answered);
  exchange("SERVER_ERROR out of memory storing object\r\nMN\r\n");
  EXPECT_EQ(b.decision.source, Source::kUnavailable);
  EXPECT_THAT(b.error, HasSubstr("out of memory"));
  EXPECT_EQ(health().refused, 2U);
  EXPECT_EQ(health().refusal, b.error);
}

TEST_F(ImpatientCasExecutorTest, ALateReplyAnswersNoRequest) {
  EXPECT_EQ(error_of_ask("k"), kSilent);
  exchange(kMiss);
  EXPECT_TRUE(is_quiet());
}

// As those whose callers wait, but it is not tried again.
TEST_F(ImpatientCasExecutorTest, ALateReadIsFollowedByItsWrite) {
  const auto write_late = [&](std::string_view key, std::string_view reply) {
    LateAnswers wanted;
    const Decision decision =
        ask_late({request(key, 2), request(key, 2)}, wanted, [&] { send_next(); });
    EXPECT_EQ(decision.taken, kTakenLater);
    answer(value(2, 7));
    EXPECT_THAT(exchange(reply), HasSubstr(" C7 c O0"));
    EXPECT_TRUE(is_quiet());
    EXPECT_EQ(wanted.all.size(), 2U);
    return wanted.all;
  };
  const std::vector<Decision> written = write_late("a", done(8));
  EXPECT_TRUE(written.at(0).allowed);
  EXPECT_EQ(written.at(0).remaining, 1);
  EXPECT_FALSE(written.at(1).allowed);
  EXPECT_EQ(written.at(1).source, Source::kStore);
  for (const Decision& lost : write_late("b", "EX O0\r\nMN\r\n")) {
    EXPECT_EQ(lost.source, Source::kUnavailable);
    EXPECT_EQ(lost.taken, 0);
  }
}

// The first of a round is destroyed, with its limit and its space, before the second is answered.
TEST_F(ImpatientCasExecutorTest, LateRequestsMayHaveTheLastSharesOfTheirLimits) {
  struct Own {
    Limit limit{"fixed_window 5/1h", "login"};
    MemcachedSpace space{"sluice", limit.definition()};
  };
  std::array<LateAnswers, 2> wanted;
  for (LateAnswers& one : wanted) {
    const auto own = std::make_shared<Own>();
    Request late = request("k", 2);
    late.limit = &own->limit.definition();
    late.space = &own->space;
    one.kept = own;
    ask_late({late}, one, [&] {
      if (call_ == nullptr) send_next();
    });
  }
  answer(value(1, 7));
  exchange(done(8));
  EXPECT_EQ(wanted[0].all.at(0).remaining, 2);
  EXPECT_EQ(wanted[1].all.at(0).remaining, 0);
}

// A write that was sent in time, and is answered after the caller: it is not made again.
TEST_F(ImpatientCasExecutorTest, ALateWriteTellsWhatWasDecided) {
  std::string key = "k";
  const auto answer_late = [&](const std::function<void(Command&)>& end) {
    key += 'k';  // Another one each time, which has to be read.
    LateAnswers wanted;
    std::vector<Decision> sizes(1);
    Request asked = request(key);
    asked.parts = sizes;
    const Decision decision = ask_late({asked}, wanted, [&] {
      send_next();
      std::exchange(call_, nullptr)->on_reply(value(2, 7));
      send_next();
    });
    EXPECT_EQ(decision.taken, kTakenLater);
    on_worker([&] { end(*std::exchange(call_, nullptr)); });
    EXPECT_TRUE(is_quiet());
    return wanted;
  };
  const LateAnswers written = answer_late([](Command& call) { call.on_reply(done(8)); });
  EXPECT_TRUE(written.all.at(0).allowed);
  EXPECT_EQ(written.all.at(0).remaining, 2);
  EXPECT_EQ(written.parts.at(0).remaining, 2);
  for (const char* refused : {"EX O0\r\nMN\r\n", "SERVER_ERROR busy\r\nMN\r\n"}) {
    const LateAnswers lost = answer_late([&](Command& call) { call.on_reply(refused); });
    EXPECT_EQ(lost.all.at(0).source, Source::kUnavailable);
    EXPECT_EQ(lost.all.at(0).taken, 0) << refused;
  }
  const LateAnswers lost =
      answer_late([](Command& call) { call.on_lost(Loss::kMayBeExecuted, kGone); });
  EXPECT_EQ(lost.all.at(0).taken, kTakenUnknown);
}

TEST_F(CasExecutorTest, OnlyAMemcachedWithMetaCommandsIsUsed) {
  for (const std::string_view version : {"1.6.13", "1.6.38_1", "1.7.0", "2.0.0"}) {
    EXPECT_EQ(connection().on_handshake_reply(0, "VERSION " + std::string(version) + "\r\n"),
              std::nullopt);
  }
  EXPECT_EQ(connection().on_handshake_reply(1, "MN\r\n"), std::nullopt);
  EXPECT_EQ(connection().on_handshake_reply(0, "VERSION 1.6.9\r\n"),
            "memcached a:1 says 'VERSION 1.6.9' to 'version': it has to be memcached 1.6.13 or "
            "later, with room for a connection");
  for (const std::string_view other :
       {"VERSION 1.6.12\r\n", "VERSION 1.5.22\r\n", "VERSION \r\n", "VERSION 1.7\r\n",
        "VERSION 1.7.\r\n", "VERSION -1.7.0\r\n", "VERSION proxy 1.6.38\r\n",
        "VERSION 1.6.99999999999\r\n", "ERROR\r\n", ""}) {
    EXPECT_TRUE(connection().on_handshake_reply(0, other).has_value()) << other;
  }
  EXPECT_THAT(connection().on_handshake_reply(1, "ERROR\r\n").value_or(""),
              HasSubstr("memcached a:1 says 'ERROR' to a meta command"));
}

// What this process wrote last: no other has written since, so its value need not be read.

TEST_F(CasExecutorTest, AWriteWithoutAReadIsForAllThatWait) {
  write_first("k", 3, 70);
  const Ask& first = ask("k");
  const Ask& peek = ask("k", 0);
  const Ask& second = ask("k");
  const Ask& denied = ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C70 c O0\r\n"));
  const Ask& later = ask("k", 0);
  answer(done(71));
  EXPECT_EQ(first.decision.remaining, 1);
  EXPECT_EQ(peek.decision.remaining, 1);
  EXPECT_TRUE(second.decision.allowed);
  EXPECT_FALSE(denied.decision.allowed);
  EXPECT_FALSE(later.is_answered);
  EXPECT_EQ(exchange(value(5, 71)), kRead);
  EXPECT_EQ(later.decision.remaining, 0);
}

// Another process may have reset the key, or refunded.
TEST_F(CasExecutorTest, ADenialIsNotTakenFromMemory) {
  write_first("k", 5, 70);
  const Ask& asked = ask("k");
  const Ask& peek = ask("k", 0);
  EXPECT_EQ(exchange(value(2, 71)), kRead);
  EXPECT_FALSE(asked.is_answered);
  EXPECT_THAT(exchange(done(72)), HasSubstr(" C71 c O0\r\n"));
  EXPECT_EQ(asked.decision.remaining, 2);
  EXPECT_EQ(peek.decision.remaining, 2);
}

// A process that is nearer to the server would win every race.
TEST_F(CasExecutorTest, AKeyWhoseRacesAreLostForLongIsClaimed) {
  const std::string claim = "md sluice:login:k I O0\r\n";
  options_.deadline = 0ns;
  const Ask& asked = ask("k");
  EXPECT_EQ(exchange(kMiss), kRead);
  std::uint64_t token = 70;
  for (const char* claimed : {"NF O0\r\n", "HD O0\r\n", "SERVER_ERROR busy\r\n"}) {
    exchange("EX O0\r\nMN\r\n");
    EXPECT_EQ(exchange(claimed + value(1, ++token, " Z")), claim + std::string(kRead));
  }
  EXPECT_THAT(exchange(done(90)), HasSubstr(" C73 ")) << "whoever has claimed it, too";
  EXPECT_EQ(asked.decision.remaining, 3);
  ask("k");
  EXPECT_EQ(sent(), kRead);
}

TEST_F(CasExecutorTest, AKeyThatAnotherProcessClaimsIsLeftToIt) {
  write_first("k", 1, 70);
  const Ask& asked = ask("k");
  EXPECT_THAT(exchange("EX O0\r\nMN\r\n"), HasSubstr(" C70 "));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(exchange(value(1, 71, " Z")), kRead);
  EXPECT_EQ(exchange(value(2, 72)), kRead);
  EXPECT_THAT(exchange(done(73)), HasSubstr(" C72 "));
  EXPECT_EQ(asked.decision.remaining, 2);
  const Ask& next = ask("k");
  exchange(value(3, 74, " Z"));
  EXPECT_THAT(exchange(done(75)), HasSubstr(" C74 ")) << "it has not lost a race by that claim";
  EXPECT_EQ(next.decision.remaining, 1);
}

TEST_F(CasExecutorTest, AnotherConnectionKnowsOfNoWrite) {
  write_first("k", 1, 70);
  reconnect();
  ask("k");
  EXPECT_EQ(exchange(value(1, 71)), kRead);
  EXPECT_THAT(exchange(done(72)), HasSubstr(" C71 "));
  ask("k");
  EXPECT_THAT(sent(), HasSubstr(" C72 "));
}

}  // namespace
}  // namespace sluice::memcached

// Which reply is whose, on a connection that the test plays: it takes the commands and hands over
// each reply itself. That the connection is given up shows by what follows: once it is lost,
// nothing waits for the next.

#include "stores/redis/connection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>

#include "sluice/limit.h"
#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

using testing::HasSubstr;

constexpr std::chrono::seconds kLong{60};
constexpr std::uint32_t kFirst = 7;  // The number of the first call.
constexpr std::string_view kNoCalls = ":5\r\n";

// The reply to the call of this number, which takes one unit of a fresh key.
std::string admitted_by(std::uint32_t number) {
  constexpr Instant kAt = 1'700'000'000'000'000'000;
  std::string head(sizeof number + sizeof kAt, '\0');
  std::memcpy(head.data(), &number, sizeof number);
  std::memcpy(head.data() + sizeof number, &kAt, sizeof kAt);
  return "*2\r\n$12\r\n" + head + "\r\n$2\r\n1" + std::string(1, '\0') + "\r\n";
}

class ConnectionTest : public testing::Test, public Router, public ConnectionOwner {
 protected:
  // A request, and what became of it.
  struct Asked {
    PendingRequest* request = nullptr;
    std::future<void> answered;
    Decision decision;
    std::string error;
  };

  ConnectionTest() {
    worker_.start([this] { connection_.on_up(); });
  }
  ~ConnectionTest() override { worker_.stop(); }

  // On the worker thread, which is the connection's.
  void play(const std::function<void()>& events) {
    std::promise<void> played;
    worker_.post([&] {
      events();
      played.set_value();
    });
    played.get_future().get();
  }

  void submit(Asked& asked) {
    const Request request{.limit = &limit_.definition(), .space = &space_, .key = "k"};
    auto batch = std::make_unique<Batch>(std::span(&request, 1));
    auto answered = std::make_shared<std::promise<void>>();
    asked.answered = answered->get_future();
    batch->completion = [&asked, answered](const Batch& made) {
      asked.decision = made.decisions()[0];
      asked.error = made.error();
      answered->set_value();
    };
    worker_.submit(std::move(batch));
    play([&] { asked.request = routed_; });
  }

  // A call of its own for it, which is sent.
  Command* call_with(Asked& asked) {
    Command* call = nullptr;
    submit(asked);
    play([&] {
      connection_.add(*asked.request);
      call = connection_.next_command();
      std::string text;
      call->write(text);
    });
    return call;
  }

  // The connection ends, and what is in flight on it is lost. True where it was given up before.
  bool end(std::initializer_list<Command*> in_flight) {
    bool given_up = false;
    play([&] {
      for (Command* command : in_flight) command->on_lost(Loss::kUnknown, "it is gone");
      connection_.on_down("it is gone");
      given_up = connection_.is_broken();
      EXPECT_EQ(connection_.next_command(), nullptr) << "asked again";
    });
    return given_up;
  }

  void expect_unanswered(Asked& asked, const std::string& why) {
    asked.answered.get();
    EXPECT_EQ(asked.decision.source, Source::kUnavailable);
    EXPECT_THAT(asked.error, HasSubstr(why));
  }

  void route(PendingRequest& request) override { routed_ = &request; }
  void flush() override {}
  std::string_view abandon(PendingRequest&) override { return "it is late"; }
  void on_up(Connection&) override {}
  void on_down(Connection&, std::string_view) override {}
  void on_refused(PendingRequest& request, Connection&, std::string_view text) override {
    worker_.fail(request, "refused: " + std::string(text));
  }

  const Limit limit_{"fixed_window 9/1d anchor=first"};
  RedisSpace space_{"sluice", limit_.definition()};
  const RedisOptions options_{.servers = {}, .deadline = kLong};
  RemoteWorker worker_{*this, {.deadline = kLong}};
  Connection connection_{{.options = options_, .worker = worker_, .first_number = kFirst},
                         {.host = "127.0.0.1", .port = 1},
                         *this};
  PendingRequest* routed_ = nullptr;
};

TEST_F(ConnectionTest, GivesEachCallItsOwnReply) {
  Asked first;
  Asked second;
  Command* const first_call = call_with(first);
  Command* const second_call = call_with(second);
  play([&] {
    first_call->on_reply(admitted_by(kFirst));
    second_call->on_reply(admitted_by(kFirst + 1));
  });
  for (Asked* asked : {&first, &second}) {
    asked->answered.get();
    EXPECT_TRUE(asked->decision.allowed);
    EXPECT_EQ(asked->decision.source, Source::kStore);
    EXPECT_EQ(asked->error, "");
  }
  EXPECT_FALSE(end({}));
}

TEST_F(ConnectionTest, IsGivenUpByOneReplyTooMany) {
  Asked first;
  Asked second;
  Command* const first_call = call_with(first);
  Command* const second_call = call_with(second);
  play([&] { first_call->on_reply(kNoCalls); });
  expect_unanswered(first, "cannot be read");
  EXPECT_TRUE(end({second_call}));
  expect_unanswered(second, "it is gone");
}

TEST_F(ConnectionTest, IsGivenUpByOneReplyTooFew) {
  Asked first;
  Asked second;
  Command* const first_call = call_with(first);
  Command* const second_call = call_with(second);
  play([&] { first_call->on_reply(admitted_by(kFirst + 1)); });
  expect_unanswered(first, "not the one to this call");
  EXPECT_TRUE(end({second_call}));
  expect_unanswered(second, "it is gone");
}

// An error names no call. A caller who is told of it is not told what the store decided for
// another, and the reply that comes after it shows that it was one too many.
TEST_F(ConnectionTest, IsGivenUpByTheReplyAfterOneErrorTooMany) {
  Asked first;
  Asked second;
  Command* const first_call = call_with(first);
  Command* const second_call = call_with(second);
  play([&] { first_call->on_reply("-ERR out of nowhere\r\n"); });
  expect_unanswered(first, "refused: ERR out of nowhere");
  play([&] { second_call->on_reply(admitted_by(kFirst)); });
  expect_unanswered(second, "not the one to this call");
  EXPECT_TRUE(end({}));
}

// The caller has gone when the reply comes: its decision is not touched, and yet the reply is to be
// that to the call.
TEST_F(ConnectionTest, IsGivenUpByAReplyThatIsNotThatToACallWhoseCallerHasGone) {
  for (const bool own : {true, false}) {
    play([&] { connection_.on_up(); });
    Asked asked;
    Command* const call = call_with(asked);
    play([&] {
      Connection::abandon(*asked.request);
      worker_.fail(*asked.request, "it is late");
      call->on_reply(admitted_by(own ? kFirst : kFirst + 5));
    });
    expect_unanswered(asked, "it is late");
    EXPECT_EQ(end({}), !own);
  }
}

// What an ASK has sent here is asked here, however often the cluster's map is read meanwhile.
TEST_F(ConnectionTest, GivesBackWhatWaitsButNotWhatWasSentToItAlone) {
  Asked anywhere;
  Asked here;
  submit(anywhere);
  submit(here);
  play([&] {
    connection_.add(*anywhere.request);
    connection_.add_asking(*here.request);
    RequestList back;
    connection_.give_back(back);
    ASSERT_FALSE(back.empty());
    worker_.fail(back.pop_front(), "it was given back");
    EXPECT_TRUE(back.empty());
    Command* const call = connection_.next_command();
    std::string text;
    call->write(text);
    EXPECT_TRUE(text.starts_with("*1\r\n$6\r\nASKING\r\n*")) << text;
    EXPECT_EQ(call->replies(), 2U);
    call->on_reply(admitted_by(kFirst));
  });
  expect_unanswered(anywhere, "it was given back");
  here.answered.get();
  EXPECT_EQ(here.decision.source, Source::kStore);
}

TEST_F(ConnectionTest, SendsAgainWhatWasNotSentAndAfterAnAskingWhereItWas) {
  Asked asked;
  Asked redirected;
  submit(asked);
  submit(redirected);
  play([&] {
    connection_.add(*asked.request);
    connection_.add_asking(*redirected.request);
    for (std::uint32_t i = 0; i < 2; ++i) {
      Command* calls[2];
      for (Command*& call : calls) {
        call = connection_.next_command();
        std::string text;
        call->write(text);
      }
      EXPECT_EQ(calls[0]->replies(), 2U);
      EXPECT_EQ(calls[1]->replies(), 1U);
      for (Command* call : calls) {
        if (i == 0) {
          call->on_lost(Loss::kUnsent, "it is gone");
        } else {
          call->on_reply(admitted_by(kFirst + (call == calls[0] ? 2 : 3)));
        }
      }
    }
  });
  for (Asked* one : {&asked, &redirected}) {
    one->answered.get();
    EXPECT_EQ(one->decision.source, Source::kStore) << one->error;
  }
}

TEST_F(ConnectionTest, IsGivenUpByAReplyToACommandThatCannotBeRead) {
  std::string why;
  const auto answer_with = [&](std::string_view reply) {
    play([&] {
      connection_.ask({"PING"}, [&](const Reply* tree, std::string_view error) {
        EXPECT_EQ(tree, nullptr);
        why = error;
      });
      connection_.next_command()->on_reply(reply);
    });
  };
  answer_with("-ERR no\r\n");
  EXPECT_EQ(why, "ERR no");
  EXPECT_FALSE(end({}));
  play([&] { connection_.on_up(); });
  answer_with("*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n");
  EXPECT_EQ(why, "the reply cannot be read");
  EXPECT_TRUE(end({}));
}

}  // namespace
}  // namespace sluice::redis

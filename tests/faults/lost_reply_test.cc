// Redis has executed a request, and its reply is missing, belongs to another request, or is
// malformed.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <string>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/redis_server.h"
#include "stores/redis/resp.h"

namespace sluice::faults {
namespace {

using servers::FaultProxy;
using servers::RedisServer;

std::string redis_url(const FaultProxy& proxy) {
  return "redis://127.0.0.1:" + std::to_string(proxy.port());
}

// A store that executes all requests, while every second reply is lost.
class HalfOfTheReplies : public testing::Test {
 protected:
  Limiter limited(const std::string& options) {
    return Limiter(open_store(redis_url(proxy_) + options),
                   Limit("fixed_window 10/1d anchor=first"));
  }

  Decision lose_one(Limiter& limiter) {
    const std::size_t before = proxy_.swallowed_bytes();
    proxy_.swallow_replies();
    const Decision decision = limiter.check("k");
    servers::await("a reply to swallow", [&] { return proxy_.swallowed_bytes() > before; });
    proxy_.cut_now();
    proxy_.pass();
    await_store(limiter);
    return decision;
  }

  const RedisServer server_;
  FaultProxy proxy_{server_.port()};
};

// A request that may have been executed is not sent again: one request, one charge.
TEST_F(HalfOfTheReplies, RequestsAreNeverSentAgain) {
  Limiter limiter = limited("?deadline=200ms&on_failure=deny");
  await_store(limiter);
  for (int i = 1; i <= 5; ++i) {
    EXPECT_EQ(lose_one(limiter).source, Source::kPolicy);
    servers::await("one charge", [&] {
      const Decision left = limiter.peek("k");
      return left.source == Source::kStore && left.remaining == 10 - i;
    });
  }
}

// The store has also charged each request that this process admitted locally, so no unit is
// admitted beyond the limit.
TEST_F(HalfOfTheReplies, AdmitNothingBeyondTheLimit) {
  Limiter limiter = limited("?deadline=100ms&deny_cache=no");
  await_store(limiter);
  int admitted = 0;
  for (int i = 0; i < 8; ++i) {
    admitted += lose_one(limiter).allowed ? 1 : 0;
    admitted += limiter.check("k").allowed ? 1 : 0;
  }
  EXPECT_EQ(admitted, 10);
}

// Five times, the replies get out of step with the calls while several are in flight: each decision
// with source kStore must still belong to its own request.
void expect_own_answers(const std::string& fault, std::function<void(std::string&)> edit) {
  RedisServer server;
  std::atomic<int> edited{0};
  FaultProxy proxy(server.port());
  expect_whole({.name = fault}, [&] {
    server.command({"FLUSHALL"});
    Load load(redis_url(proxy));
    edited.store(0);
    return through(load, [&] {
      for (int i = 1; i <= 5; ++i) {
        proxy.edit_replies([&, i](std::string& replies) {
          // The reply to a call is a text. In the handshake there are two: a digest of 40 bytes,
          // and the reply to a call without requests.
          const bool is_of_call = replies.front() == '$' && !replies.starts_with("$40\r\n") &&
                                  !replies.starts_with("$12\r\n");
          if (edited.load() == i || !is_of_call) return;
          edit(replies);
          edited.store(i);
        });
        proxy.delay_replies(1ms);
        run(350ms);
        servers::await("an edit", [&] { return edited.load() == i; });
      }
      proxy.pass();
    });
  });
}

std::size_t first_reply_bytes(const std::string& replies) {
  return redis::RespFraming().reply_bytes(replies);
}

TEST(LostReply, IsOneTooMany) {
  expect_own_answers("one reply more, five times",
                     [](std::string& replies) { replies.insert(0, ":5\r\n"); });
}

TEST(LostReply, IsOneErrorTooMany) {
  expect_own_answers("one error more, five times",
                     [](std::string& replies) { replies.insert(0, "-ERR out of nowhere\r\n"); });
}

TEST(LostReply, ComesTwice) {
  expect_own_answers("one reply twice, five times", [](std::string& replies) {
    replies.insert(0, replies.substr(0, first_reply_bytes(replies)));
  });
}

TEST(LostReply, IsOneTooFew) {
  expect_own_answers("one reply dropped, five times",
                     [](std::string& replies) { replies.erase(0, first_reply_bytes(replies)); });
}

}  // namespace
}  // namespace sluice::faults

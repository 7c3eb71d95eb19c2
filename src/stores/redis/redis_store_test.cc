// The store against real servers: what it does when all is well.

#include "stores/redis/redis_store.h"

#include <gmock/gmock.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <latch>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "net/tls_client.h"
#include "servers/await.h"
#include "servers/certificates.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

TEST(RedisStore, EachDecisionOfALoneCallerIsOneCall) {
  const RedisServer server;
  Limited limited(options_for(server), "token_bucket 1000/1s");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limited.check("k").allowed);
  EXPECT_EQ(calls(server, "evalsha"), 100);
}

// By the caller's clock, too: then what came at different moments is asked at one.
TEST(RedisStore, RequestsDuringACallAreSentTogether) {
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back("key" + std::to_string(i));
  for (const bool client_time : {false, true}) {
    const RedisServer server;
    RedisOptions options = options_for(server);
    options.client_time = client_time;
    Limited limited(options, "token_bucket 1000/1h");
    const Crowd crowd(limited, keys);
    EXPECT_EQ(crowd.admitted(), 2000);
    EXPECT_LE(calls(server, "evalsha"), 400);
    if (client_time) EXPECT_LE(calls(server, "time"), 1) << "of the connection alone";
  }
}

// A request that is a whole batch is destroyed when it has failed.
TEST(RedisStore, AKeyThatNoCallCanCarryFailsAtOnce) {
  const RedisServer server;
  Limited limited(options_for(server), "token_bucket 10/1h");
  const std::string huge(2'000'000, 'x');
  EXPECT_EQ(sources(limited, {limited.request(huge)}).front(), Source::kUnavailable);
  EXPECT_THAT(limited.submit(huge).get().error,
              testing::MatchesRegex("the key is too long: a call to redis 127.0.0.1:[0-9]+ has at "
                                    "most 1048576 bytes"));
  EXPECT_EQ(limited.check("k").remaining, 9);
}

// Each key has its own, so that its requests keep their order.
TEST(RedisStore, SpreadsItsKeysOverItsConnections) {
  const RedisServer server;
  RedisOptions options = options_for(server);
  options.connections = 4;
  Limited limited(options, "fixed_window 10/24h");
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back("key" + std::to_string(i % 100));
  const Crowd crowd(limited, keys);
  EXPECT_EQ(crowd.admitted(), 1000);
  EXPECT_EQ(crowd.unanswered(), 0);
  int decided = 0;
  std::istringstream clients(server.command({"CLIENT", "LIST"}));
  for (std::string client; std::getline(clients, client);) {
    if (client.find("name=sluice") == std::string::npos) continue;
    EXPECT_THAT(client, testing::HasSubstr("cmd=evalsha"));
    ++decided;
  }
  EXPECT_EQ(decided, 4);

  // A lone caller, a batch over all connections, and a script that is forgotten by all of them.
  EXPECT_EQ(limited.check("alone").remaining, 9);
  server.command({"SCRIPT", "FLUSH"});
  std::vector<Request> requests;
  for (int i = 0; i < 100; ++i)
    requests.push_back(limited.request(keys[static_cast<size_t>(i)], 0));
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));
  EXPECT_EQ(limited.check("alone").remaining, 8);
}

TEST(RedisStore, AForgottenScriptIsLoadedOnceForAllWhoWait) {
  const RedisServer server;
  Limited limited(options_for(server), "fixed_window 5000/24h");
  limited.check("k");
  const long loaded = calls(server, "script|load");
  for (int i = 0; i < 5; ++i) {
    server.command({"SCRIPT", "FLUSH"});
    // Several calls, of which two are under way at once: none overtakes another.
    const std::vector<Request> requests(3 * ScriptCall::kMaxRequests, limited.request("k"));
    std::vector<Decision> decisions(requests.size());
    limited.store().decide(requests, kStoreTime, decisions);
    for (std::size_t k = 1; k < decisions.size(); ++k) {
      ASSERT_EQ(decisions[k].remaining, decisions[k - 1].remaining - 1) << k;
    }
  }
  EXPECT_EQ(calls(server, "script|load"), loaded + 5);
}

// More than fits into a record, or a socket's buffer, at once.
TEST(RedisStore, ALoneCallersLargeBatchIsAnsweredOverTls) {
  const RedisServer server({.tls = true});
  RedisOptions options = options_for(server);
  options.servers[0].tls =
      std::make_shared<TlsContext>(TlsOptions{.ca_file = servers::certificates().ca});
  Limited limited(options, "token_bucket 10/1h");
  limited.check("up");
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(std::string(3000, 'k') + std::to_string(i));
  std::vector<Request> requests;
  for (const auto& key : keys) requests.push_back(limited.request(key));
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));
}

TEST(RedisStore, TheCallersClockDecidesWhereItIsTold) {
  const RedisServer server;
  RedisOptions options = options_for(server);
  options.client_time = true;
  Limited limited(options, "fixed_window 5/1h anchor=first");
  limited.check("k");
  EXPECT_LE(calls(server, "time"), 1) << "of the connection, not of the decisions";
  const long lives_ms = std::stol(server.command({"PTTL", "sluice:test:{k}"}));
  EXPECT_GT(lives_ms, 3'600'000);
  EXPECT_LE(lives_ms, 3'606'000);
}

// It has answered, so "no answer in time" would be false.
TEST(RedisStore, NamesWhatAServerSaysUntilTheDeadline) {
  RedisServer server;
  server.command({"CONFIG", "SET", "busy-reply-threshold", "5"});
  RedisOptions options = options_for(server);
  options.deadline = 1s;
  Limited limited(options, "fixed_window 5/1m");
  servers::await("a decision", [&] { return limited.submit("k").get().error.empty(); });
  std::thread script([&] { server.command({"EVAL", "while true do end", "0"}); });
  servers::await("BUSY", [&] { return server.command({"PING"}).starts_with("-BUSY"); });
  EXPECT_THAT(limited.submit("k").get().error, testing::HasSubstr(": BUSY "));
  EXPECT_EQ(server.command({"SCRIPT", "KILL"}), "OK");
  script.join();
}

// Two stores on one server, as two processes have them, each asked by two threads. They compete
// once both stores have decided.
TEST(RedisStore, TwoStoresOnOneKeyAdmitWhatOneWould) {
  const RedisServer server;
  std::array<std::atomic<int>, 2> admitted{};
  {
    Limited one(options_for(server), "sliding_window 1000/1h");
    Limited other(options_for(server), "sliding_window 1000/1h");
    std::latch all_decided(4);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < 4; ++i) {
      threads.emplace_back([&, &limited = i % 2 == 0 ? one : other, &count = admitted[i % 2]] {
        if (limited.check("hot").allowed) ++count;
        all_decided.arrive_and_wait();
        while (limited.check("hot").allowed) ++count;
      });
    }
  }
  EXPECT_EQ(admitted[0] + admitted[1], 1000);
  EXPECT_GT(admitted[0], 0);
  EXPECT_GT(admitted[1], 0);
}

}  // namespace
}  // namespace sluice::redis

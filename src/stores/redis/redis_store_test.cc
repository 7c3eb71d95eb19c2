// The store against real servers: what it does when all is well.

#include "stores/redis/redis_store.h"

#include <gmock/gmock.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

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

}  // namespace
}  // namespace sluice::redis

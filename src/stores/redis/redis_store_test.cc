// The store against real servers: what it does when all is well.

#include "stores/redis/redis_store.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <semaphore>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "servers/certificates.h"
#include "servers/redis_cluster.h"
#include "stores/redis/limited_test.h"

namespace sluice::redis {
namespace {

TEST(RedisStore, KeepsEachKeysStateUnderItsName) {
  const RedisServer server;
  Limited limited(options_for(server), "fixed_window 3/1h");
  EXPECT_EQ(limited.check("alice").remaining, 2);
  EXPECT_EQ(limited.check("alice", 2).remaining, 0);
  const Decision denied = limited.check("alice");
  EXPECT_FALSE(denied.allowed);
  EXPECT_GT(denied.retry_after.count(), 0);
  EXPECT_EQ(limited.check("b{o}b").remaining, 2);
  EXPECT_EQ(server.command({"EXISTS", "sluice:test:{alice}"}), "1");
  EXPECT_EQ(server.command({"EXISTS", "sluice:test:{b%7Bo%7Db}"}), "1");
}

TEST(RedisStore, LimitersOfOneNameShareTheirKeys) {
  const RedisServer server;
  Limited one(options_for(server), "token_bucket 10/1h");
  Limited other(options_for(server), "token_bucket 10/1h");
  one.check("k", 4);
  EXPECT_EQ(other.check("k", 0).remaining, 6);
}

TEST(RedisStore, ALoneCallerDrivesTheConnection) {
  const RedisServer server;
  Limited limited(options_for(server), "token_bucket 1000/1s");
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(limited.check("k").allowed);
  EXPECT_EQ(calls(server, "evalsha"), 100);
}

TEST(RedisStore, WhatComesWhileACallIsUnderWayTravelsTogether) {
  const RedisServer server;
  Limited limited(options_for(server), "token_bucket 1000/1h");
  std::vector<std::string> keys;
  for (int i = 0; i < 2000; ++i) keys.push_back("key" + std::to_string(i));
  const Crowd crowd(limited, keys);
  EXPECT_EQ(crowd.admitted(), 2000);
  EXPECT_LE(calls(server, "evalsha"), 400);
}

TEST(RedisStore, ManyCallersOfOneKeyAreAdmittedAsOneWouldBe) {
  const RedisServer server;
  Limited limited(options_for(server), "sliding_log 500/1h");
  const Crowd crowd(limited, std::vector<std::string>(2000, "hot"));
  EXPECT_EQ(crowd.admitted(), 500);
  EXPECT_EQ(crowd.unanswered(), 0);
}

TEST(RedisStore, ThreadsThatWaitShareTheConnection) {
  const RedisServer server;
  Limited limited(options_for(server), "fixed_window 300/24h");
  std::atomic<int> admitted = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 100; ++i) admitted += limited.check("hot").allowed ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), 300);
  EXPECT_EQ(server.info("connected_clients"), "2");  // the store's, and this one
}

TEST(RedisStore, AForgottenScriptIsLoadedOnceForAllWhoWait) {
  const RedisServer server;
  Limited limited(options_for(server), "token_bucket 1000/1h");
  limited.check("k");
  const long loaded = calls(server, "script|load");
  for (int i = 0; i < 5; ++i) {
    server.command({"SCRIPT", "FLUSH"});
    const Crowd crowd(limited, std::vector<std::string>(100, "k" + std::to_string(i)));
    EXPECT_EQ(crowd.admitted(), 100);
  }
  EXPECT_EQ(calls(server, "script|load"), loaded + 5);
}

TEST(RedisStore, GivesItsPasswordAndSelectsItsDatabase) {
  const RedisServer server({.password = "open-sesame"});
  RedisOptions options = options_for(server);
  options.password = "open-sesame";
  options.database = 3;
  Limited limited(options, "token_bucket 10/1h");
  EXPECT_TRUE(limited.check("k").allowed);
  auto client = server.client();
  EXPECT_THAT(client.ask({"INFO", "keyspace"}).printed(), testing::HasSubstr("db3:keys=1"));
}

TEST(RedisStore, SaysThatItsPasswordIsWrong) {
  const RedisServer server({.password = "open-sesame"});
  RedisOptions options = options_for(server);
  options.password = "hunter2";
  options.deadline = 200ms;
  Limited limited(options, "token_bucket 10/1h");
  try {
    limited.check("k");
    FAIL() << "it was answered";
  } catch (const StoreError& error) {
    EXPECT_THAT(error.what(), testing::HasSubstr("WRONGPASS"));
    EXPECT_THAT(error.what(), testing::Not(testing::HasSubstr("hunter2")));
  }
}

TEST(RedisStore, SpeaksTlsAndShowsItsCertificate) {
  const RedisServer server({.tls = true, .client_certificates = true});
  const auto& files = servers::certificates();
  RedisOptions options = options_for(server);
  options.servers[0].tls = TlsOptions{.ca_file = files.ca,
                                      .certificate_file = files.client,
                                      .key_file = files.client_key,
                                      .server_name = {}};
  Limited limited(options, "token_bucket 10/1h");
  EXPECT_EQ(limited.check("k").remaining, 9);
  const Crowd crowd(limited, std::vector<std::string>(100, "hot"));
  EXPECT_EQ(crowd.admitted(), 10);
}

// More than fits into a record, or a socket's buffer, at once.
TEST(RedisStore, ALoneCallersLargeBatchIsAnsweredOverTls) {
  const RedisServer server({.tls = true});
  RedisOptions options = options_for(server);
  options.servers[0].tls = TlsOptions{.ca_file = servers::certificates().ca,
                                      .certificate_file = {},
                                      .key_file = {},
                                      .server_name = {}};
  Limited limited(options, "token_bucket 10/1h");
  limited.check("up");
  std::vector<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.push_back(std::string(3000, 'k') + std::to_string(i));
  std::vector<Request> requests;
  for (const auto& key : keys) requests.push_back(limited.request(key));
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));
}

TEST(RedisStore, ConnectsToAUnixSocket) {
  const RedisServer server;
  Limited limited({.servers = {{.host = {}, .unix_path = server.unix_path()}}, .deadline = 5s},
                  "token_bucket 10/1h");
  EXPECT_EQ(limited.check("k").remaining, 9);
}

TEST(RedisStore, TheCallersClockDecidesWhereItIsTold) {
  const RedisServer server;
  RedisOptions options = options_for(server);
  options.client_time = true;
  Limited limited(options, "fixed_window 5/1h anchor=first");
  limited.check("k");
  EXPECT_EQ(calls(server, "time"), 0);
  const long lives_ms = std::stol(server.command({"PTTL", "sluice:test:{k}"}));
  EXPECT_GT(lives_ms, 3'600'000);
  EXPECT_LE(lives_ms, 3'606'000);
}

TEST(RedisStore, AskedInVirtualTimeItLeavesNothingBehind) {
  const RedisServer server;
  server.command({"SET", "other", "x"});
  RedisOptions options = options_for(server);
  options.virtual_time = true;
  {
    RedisStore store(options);
    const Limit limit("fixed_window 5/1s", "test");
    const auto space = store.open_space(limit.definition());
    const Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
    Decision decision;
    for (int i = 0; i < 6; ++i) store.decide({&request, 1}, 1'000'000'000, {&decision, 1});
    EXPECT_FALSE(decision.allowed);
    EXPECT_GT(std::stol(server.command({"PTTL", "sluice:test:{k}"})), 86'000'000);
  }
  EXPECT_EQ(server.command({"DBSIZE"}), "1");
}

TEST(RedisStore, RefusesListsThatDoNotTake) {
  const RedisServer server;
  Limited bucket(options_for(server), "token_bucket 5/1m");
  Limited permits(options_for(server), "concurrency 5");
  Request request = bucket.request("k");
  request.operation = Operation::kCharge;
  EXPECT_THROW(bucket.store().decide_all({&request, 1}, kStoreTime), std::invalid_argument);
  const Request permit = permits.request("k");
  try {
    permits.store().decide_all({&permit, 1}, kStoreTime);
    FAIL() << "it was asked";
  } catch (const std::invalid_argument& error) {
    EXPECT_STREQ(error.what(), "permits are acquired one by one");
  }
  EXPECT_EQ(server.command({"DBSIZE"}), "0");
}

TEST(RedisStore, ChargesBlocksAndTakesWhatThereIs) {
  const RedisServer server;
  Limited limited(options_for(server), "sliding_window 10/1h & token_bucket 20/1h");
  const auto ask = [&](Operation operation, std::int64_t cost) {
    Request request = limited.request("k", cost);
    request.operation = operation;
    request.duration_ns = 60'000'000'000;
    Decision decision;
    limited.store().decide({&request, 1}, kStoreTime, {&decision, 1});
    return decision;
  };
  EXPECT_EQ(ask(Operation::kCharge, 3).remaining, 7);
  EXPECT_EQ(ask(Operation::kTakeUpTo, 5).taken, 5);
  EXPECT_EQ(ask(Operation::kTakeUpTo, 5).taken, 2);
  EXPECT_EQ(ask(Operation::kTakeUpTo, 5).taken, 0);
  EXPECT_EQ(ask(Operation::kRefund, 4).remaining, 4);
  EXPECT_EQ(ask(Operation::kBlock, 1).remaining, 0);
  EXPECT_FALSE(limited.check("k").allowed);
  EXPECT_TRUE(limited.check("other").allowed);
  EXPECT_EQ(ask(Operation::kReset, 0).remaining, 10);
  EXPECT_TRUE(limited.check("k").allowed);
  EXPECT_EQ(calls(server, "evalsha"), 10);
}

// The names of the commands that the server has run, "script|load" for a subcommand.
std::set<std::string> commands_run(const RedisServer& server) {
  std::set<std::string> names;
  std::istringstream lines(server.command({"INFO", "commandstats"}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t at = line.find("cmdstat_");
    if (at != std::string::npos) names.insert(line.substr(at + 8, line.find(':') - at - 8));
  }
  return names;
}

void ask_everything(RedisStore& store, Instant now) {
  for (const char* expression :
       {"token_bucket 5/1s", "leaky_bucket 5/1s queue=3", "fixed_window 5/1s",
        "fixed_window 5/1s anchor=first", "sliding_log 500/1h", "sliding_window 5/1s",
        "sliding_counter 5/1s", "token_bucket 5/1s & sliding_log 5/1h", "concurrency 1"}) {
    const Limit limit(expression);
    const auto space = store.open_space(limit.definition());
    Request request{.limit = &limit.definition(), .space = space.get(), .key = "k"};
    request.duration_ns = 1;
    Decision decision;
    const auto operations =
        lends(limit.definition())
            ? std::vector{Operation::kTake, Operation::kRenew, Operation::kRelease}
            : std::vector{Operation::kTake, Operation::kTakeUpTo, Operation::kCharge,
                          Operation::kRefund};
    for (const auto operation : operations) {
      request.operation = operation;
      for (int i = 0; i < 20; ++i) {
        request.permit = 1;
        store.decide({&request, 1}, now, {&decision, 1});
      }
    }
    for (const auto operation : {Operation::kBlock, Operation::kReset}) {
      request.operation = operation;
      store.decide({&request, 1}, now, {&decision, 1});
      EXPECT_TRUE(decision.allowed);
    }
    request.operation = Operation::kTake;
    if (!lends(limit.definition())) {
      EXPECT_TRUE(store.decide_all({&request, 1}, now).allowed);
    }
    std::binary_semaphore watched{0};
    const auto watch = store.watch(space, "k", [&] { watched.release(); });
    EXPECT_TRUE(watched.try_acquire_for(5s));
  }
}

TEST(RedisStore, AsksNothingThatRedis5HasNot) {
  const RedisServer server({.password = "open-sesame"});
  servers::RedisCluster cluster;
  RedisOptions options = options_for(server);
  options.password = "open-sesame";
  options.database = 1;
  options.virtual_time = true;
  { ask_everything(*std::make_unique<RedisStore>(options), 1'000'000'000'000); }
  RedisOptions clustered{.topology = Topology::kCluster, .servers = {}, .deadline = 5s};
  clustered.servers = {{.host = "127.0.0.1", .port = cluster.node(0).port()}};
  { ask_everything(*std::make_unique<RedisStore>(clustered), kStoreTime); }
  std::set<std::string> run = commands_run(server);
  EXPECT_THAT(run, testing::IsSupersetOf({"evalsha", "script|load", "scan", "unlink", "auth"}));
  for (std::size_t i = 0; i < cluster.size(); ++i) run.merge(commands_run(cluster.node(i)));
  EXPECT_THAT(run, testing::IsSupersetOf({"cluster|slots", "time"}));
  for (const std::string& name : run) {
    const auto docs = server.client().ask({"COMMAND", "DOCS", name});
    ASSERT_EQ(docs.elements.size(), 2U) << name;
    const auto& fields = docs.elements[1].elements;
    const auto since = std::find_if(fields.begin(), fields.end(),
                                    [](const auto& field) { return field.text == "since"; });
    ASSERT_NE(since, fields.end()) << name;
    EXPECT_LE(std::stoi((since + 1)->text), 5) << name << " since " << (since + 1)->text;
  }
  // What the script itself calls is among what was run.
  EXPECT_THAT(run,
              testing::IsSupersetOf({"get", "set", "setrange", "del", "publish", "subscribe"}));
}

TEST(RedisStore, TwoProcessesOnOneKeyAdmitWhatOneWould) {
  const RedisServer server;
  int pipes[2];
  ASSERT_EQ(::pipe(pipes), 0);
  const auto race = [&] {
    Limited limited(options_for(server), "sliding_window 1000/1h");
    std::atomic<int> admitted = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 2; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 600; ++i) admitted += limited.check("hot").allowed ? 1 : 0;
      });
    }
    for (auto& thread : threads) thread.join();
    return admitted.load();
  };
  const pid_t child = ::fork();
  if (child == 0) {
    const int admitted = race();
    _exit(::write(pipes[1], &admitted, sizeof(admitted)) == sizeof(admitted) ? 0 : 1);
  }
  const int here = race();
  int there = 0;
  ASSERT_EQ(::read(pipes[0], &there, sizeof(there)), static_cast<ssize_t>(sizeof(there)));
  ::close(pipes[0]);
  ::close(pipes[1]);
  EXPECT_GT(here, 0);
  EXPECT_GT(there, 0);
  EXPECT_EQ(here + there, 1000);
}

}  // namespace
}  // namespace sluice::redis

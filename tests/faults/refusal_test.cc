// The server replies with errors.

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/redis_server.h"
#include "testing/error_of.h"

namespace sluice::faults {
namespace {

using servers::RedisServer;

// Runs callers while the server replies with errors for half a second.
void refuse_for_a_while(RedisServer& server, const std::string& fault,
                        const std::function<void()>& begin, const std::function<void()>& end) {
  expect_whole({.name = fault, .known_after = 200ms, .least_instead = 101}, [&] {
    server.command({"FLUSHALL"});
    Load load(server.url());
    return through(load, [&] {
      begin();
      run(500ms);
      end();
    });
  });
}

// The store loads the script again, once for all waiting requests: callers notice nothing.
TEST(Refusal, ScriptsAreFlushed) {
  RedisServer server;
  const Fault fault{
      .name = "SCRIPT FLUSH, every 20 ms for 400 ms", .never_given_up = true, .unnoticed = true};
  expect_whole(fault, [&] {
    server.command({"FLUSHALL"});
    Load load(server.url());
    return through(load, [&] {
      for (int i = 0; i < 20; ++i) {
        server.command({"SCRIPT", "FLUSH"});
        run(20ms);
      }
    });
  });
}

TEST(Refusal, MemoryIsUsedUp) {
  RedisServer server;
  refuse_for_a_while(
      server, "maxmemory reached (OOM) for 500 ms",
      [&] {
        server.command({"DEBUG", "POPULATE", "10000", "filler", "100"});
        server.command({"CONFIG", "SET", "maxmemory", "2mb"});
      },
      [&] {
        server.command({"CONFIG", "SET", "maxmemory", "0"});
      });
}

TEST(Refusal, ItIsAReplicaNow) {
  RedisServer server;
  const auto free_port = std::to_string(servers::free_port());
  refuse_for_a_while(
      server, "a replica (READONLY) for 500 ms",
      [&] {
        server.command({"REPLICAOF", "127.0.0.1", free_port});
      },
      [&] {
        server.command({"REPLICAOF", "NO", "ONE"});
      });
}

TEST(Refusal, ItWantsAPassword) {
  RedisServer server;
  refuse_for_a_while(
      server, "a password wanted (NOAUTH) for 500 ms",
      [&] {
        auto client = server.client();
        client.ask({"CONFIG", "SET", "requirepass", "secret"});
        client.ask({"CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"});
      },
      [&] {
        auto client = server.client();
        client.ask({"AUTH", "secret"});
        client.ask({"CONFIG", "SET", "requirepass", ""});
      });
}

TEST(Refusal, ThePasswordIsWrong) {
  const RedisServer server({.password = "right"});
  const std::string address = "127.0.0.1:" + std::to_string(server.port());
  Limiter limiter(open_store("redis://:wrong@" + address + "?on_failure=raise"),
                  Limit("fixed_window 3/1d"));
  servers::await("the reason", [&] {
    const std::string why = error_of([&] { limiter.check("k"); });
    EXPECT_EQ(why.find("wrong"), std::string::npos) << why;
    return why.find(address) != std::string::npos && why.find("WRONGPASS") != std::string::npos;
  });
}

// Any other error is reported to programs that use on_failure=raise.
TEST(Refusal, ItHasNoReplicas) {
  const RedisServer server({.config = {"min-replicas-to-write 1"}});
  Limiter limiter(open_store(server.url() + "?on_failure=raise"), Limit("fixed_window 3/1d"));
  servers::await("the reason", [&] {
    return error_of([&] { limiter.check("k"); }).find("NOREPLICAS") != std::string::npos;
  });
}

// While another client's script runs, no caller waits for its end.
TEST(Refusal, ItIsBusy) {
  RedisServer server;
  server.command({"CONFIG", "SET", "busy-reply-threshold", "5"});
  const Fault fault{
      .name = "busy with a script (BUSY) for 300 ms", .known_after = 100ms, .least_instead = 101};
  expect_whole(fault, [&] {
    server.command({"FLUSHALL"});
    Load load(server.url());
    return through(load, [&] {
      std::thread script([&] { server.command({"EVAL", "while true do end", "0"}); });
      servers::await("BUSY", [&] { return server.command({"PING"}).starts_with("-BUSY"); });
      run(300ms);
      server.command({"SCRIPT", "KILL"});
      script.join();
    });
  });
}

// After loading, the server has its former states.
TEST(Refusal, ItReadsItsData) {
  RedisServer server;
  const Fault fault{
      .name = "reading its data (LOADING)", .known_after = 200ms, .least_instead = 101};
  expect_whole(fault, [&] {
    server.command({"FLUSHALL"});
    server.command({"DEBUG", "POPULATE", "1000", "filler"});
    server.command({"CONFIG", "SET", "key-load-delay", "500"});
    server.command({"CONFIG", "SET", "loading-process-events-interval-bytes", "1024"});
    Load load(server.url());
    Round round = through(load, [&] { EXPECT_EQ(server.command({"DEBUG", "RELOAD"}), "OK"); });
    EXPECT_GT(round.ended - round.began, 400ms);
    return round;
  });
}

}  // namespace
}  // namespace sluice::faults

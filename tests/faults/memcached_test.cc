// The faults that only a cache has: it forgets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>

#include "faults/expectations.h"
#include "faults/load.h"
#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "servers/memcached_server.h"

namespace sluice::faults {
namespace {

using servers::FaultProxy;
using servers::MemcachedServer;

std::string url_of(const FaultProxy& proxy) {
  return "memcached://127.0.0.1:" + std::to_string(proxy.port());
}

// A round whose fault loses the server's states.
Round lose_in(Load& load, const std::function<void()>& fault) {
  return through(load, [&] {
    load.begin_losing();
    fault();
    load.end_losing();
  });
}

// Each time every key begins fresh, and is admitted one limit's worth more.
TEST(ForgetfulMemcached, IsFlushedUnderLoad) {
  constexpr int kFlushes = 3;
  const MemcachedServer server;
  expect_whole({.name = "flush_all three times", .bound = {}, .never_given_up = true}, [&] {
    Load load(server.url());
    Round round = lose_in(load, [&] {
      for (int i = 0; i < kFlushes; ++i) {
        server.command("flush_all\r\n");
        run(100ms);
      }
    });
    for (const Admitted& key : round.report.admitted) {
      EXPECT_LE(key.otherwise, key.limit) << key.key;
      EXPECT_LE(key.by_store + key.otherwise, (1 + kFlushes) * key.limit) << key.key;
    }
    server.command("flush_all\r\n");
    return round;
  });
}

// Does not count as a use of the key, which would keep it longer.
bool is_kept(const MemcachedServer& server, const std::string& key) {
  return server.command("me " + key + "\r\n") != "EN\r\n";
}

// Values of the same size as that key's, with keys and client flags of the same length: they take
// its place.
std::string values_like(const MemcachedServer& server, const std::string& key,
                        const std::string& flags = "") {
  const std::string found = server.command("mg " + key + " s\r\n");
  const std::size_t bytes = std::stoul(found.substr(found.find('s') + 1));
  std::string sets;
  for (int i = 0; i < 30'000; ++i) {
    std::string name = std::to_string(100'000 + i);
    name.insert(0, key.size() - name.size(), 'n');
    sets += "ms " + name + " " + std::to_string(bytes) + " q F1" + flags + "\r\n" +
            std::string(bytes, 'x') + "\r\n";
  }
  return sets;
}

// One limit's worth more for each time that the key is forgotten.
TEST(ForgetfulMemcached, ForgetsForLackOfMemory) {
  constexpr int kLimit = 10;
  constexpr int kEvictions = 3;
  const MemcachedServer server({.arguments = {"-m", "2"}});
  Limiter limiter(open_store(server.url() + "?deadline=5s&on_failure=raise&deny_cache=no"),
                  Limit("fixed_window 10/100d", "login"));
  const std::string key = "sluice:login:somebody";
  for (int eviction = 0; eviction <= kEvictions; ++eviction) {
    int admitted = 0;
    for (int i = 0; i < 2 * kLimit; ++i) admitted += limiter.check("somebody").allowed ? 1 : 0;
    EXPECT_EQ(admitted, kLimit);
    const std::string values = values_like(server, key);
    servers::await("its eviction", [&] {
      server.command(values);
      return !is_kept(server, key);
    });
  }
  EXPECT_NE(server.stat("evictions"), "0");
}

// With the options that docs/memcached.md recommends, memcached refuses values that would take the
// place of a limit's state.
TEST(Memcached, KeepsWhatIsTemporaryForLackOfMemory) {
  constexpr int kLimit = 10;
  const MemcachedServer server({.arguments = {"-m", "2", "-o", "temporary_ttl=86410"}});
  Limiter limiter(open_store(server.url() + "?deadline=5s&on_failure=raise&deny_cache=no"),
                  Limit("fixed_window 10/1d anchor=first", "login"));
  const std::string key = "sluice:login:somebody";
  for (int i = 0; i < kLimit; ++i) EXPECT_TRUE(limiter.check("somebody").allowed);
  server.command(values_like(server, key));
  EXPECT_NE(server.stat("evictions"), "0");
  EXPECT_TRUE(is_kept(server, key));
  const std::string refused = server.command(values_like(server, key, " T86400"));
  EXPECT_NE(refused.find("SERVER_ERROR out of memory storing object"), std::string::npos);
  EXPECT_TRUE(is_kept(server, key));
  EXPECT_FALSE(limiter.check("somebody").allowed);
  // An item of the same size.
  EXPECT_THAT(
      [&] { limiter.check("everyone"); },
      testing::ThrowsMessage<StoreError>(testing::HasSubstr("out of memory storing object")));
}

// One limit's worth more for each time that a key is forgotten. A test notices that by the
// admission of the first unit of the limit.
TEST(ForgetfulMemcached, ForgetsUnderLoad) {
  const MemcachedServer server({.arguments = {"-m", "2"}});
  expect_whole({.name = "memory pressure for 500 ms", .bound = {}}, [&] {
    Load load(server.url());
    const std::string key = "sluice:own:own-0-0";
    servers::await("one of its keys", [&] { return is_kept(server, key); });
    const std::string values = values_like(server, key);
    Round round = lose_in(load, [&] {
      const Clock::time_point end = Clock::now() + 500ms;
      while (Clock::now() < end) {
        server.command(values);
        run(20ms);
      }
    });
    EXPECT_NE(server.stat("evictions"), "0");
    std::int64_t begun = 0;
    for (const Admitted& each : round.report.admitted) {
      EXPECT_LE(each.by_store, each.begun * each.limit) << each.key;
      begun += each.begun;
    }
    std::printf("[  FIGURES ] %zu keys began fresh %d times\n", round.report.admitted.size(),
                static_cast<int>(begun));
    server.command("flush_all\r\n");
    return round;
  });
}

// Every write of the nearer process comes before one of the farther one, which is carried out only
// because the key is claimed for it.
TEST(Memcached, AFartherProcessIsNotStarvedByANearerOne) {
  const MemcachedServer server;
  FaultProxy far(server.port());
  far.delay_replies(2ms);
  const Limit limit("fixed_window 1000000000/100d", "login");
  Limiter near(open_store(server.url() + "?deadline=100ms"), limit);
  Limiter farther(open_store(url_of(far) + "?deadline=100ms"), limit);
  std::atomic<bool> stopping = false;
  std::thread writer([&] {
    while (!stopping) near.check("hot");
  });
  int answered = 0;
  for (int i = 0; i < 20; ++i) answered += farther.check("hot").source == Source::kStore ? 1 : 0;
  stopping = true;
  writer.join();
  std::printf("[  FIGURES ] the store has answered %d of 20 requests\n", answered);
  EXPECT_GE(answered, 10);
}

// One connection that ends within a reply, at the place that the test chooses.
class MemcachedReply : public testing::Test {
 protected:
  // The length of the reply for a key without a value.
  std::size_t miss_bytes() const {
    return server_.command("mg none v c O0\r\n").size() + std::string("MN\r\n").size();
  }

  Decision lose_after(std::size_t reply_bytes, const std::string& key) {
    await_store(limiter_, "any");
    proxy_.cut_after(reply_bytes);
    const Decision decision = limiter_.check(key);
    proxy_.pass();
    await_store(limiter_, "any");
    return decision;
  }

  const MemcachedServer server_;
  FaultProxy proxy_{server_.port()};
  Limiter limiter_{open_store(url_of(proxy_) + "?deadline=5s&on_failure=deny"),
                   Limit("fixed_window 10/100d")};
};

// The value is written and the reply does not arrive: the request is charged once, and its caller
// gets no answer of the store.
TEST_F(MemcachedReply, ToAWriteIsLost) {
  for (const std::string key : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(lose_after(miss_bytes() + 1, key).source, Source::kPolicy);
    EXPECT_EQ(limiter_.peek(key).remaining, 9);
  }
}

// A read changes nothing, so it is sent again over the next connection.
TEST_F(MemcachedReply, ToAReadIsLost) {
  for (const std::string key : {"a", "b", "c", "d", "e"}) {
    run(300ms);  // The connection has lasted, so that callers wait for the next one.
    const Decision decision = lose_after(miss_bytes() - 1, key);
    EXPECT_EQ(decision.source, Source::kStore);
    EXPECT_EQ(decision.remaining, 9);
    EXPECT_EQ(limiter_.peek(key).remaining, 9);
  }
}

}  // namespace
}  // namespace sluice::faults

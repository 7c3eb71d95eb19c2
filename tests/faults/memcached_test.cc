// The faults that only a cache has: it forgets.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <ostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

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

// One limit's worth more for each time that a key is lost, and the units that some caller had added
// before and took back after it, off the new counter: each caller has those of one request at most.
std::int64_t most_counted(std::int64_t limit, std::int64_t losses, std::size_t callers) {
  return (1 + losses) * limit + losses * static_cast<std::int64_t>(callers);
}

// The same for compare-and-swap and for counters.
struct Way {
  const char* name;
  const char* options;
  // The key of "somebody" and the limit "login", or of "own-0-0" and that of the load.
  std::string (*key)(const std::string& space, const std::string& key);
  // Who had added a unit to what is forgotten, and takes it back off what begins fresh; or, gone
  // meanwhile, at any time.
  std::size_t takers;

  friend std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }
};

std::string exact_key(const std::string& space, const std::string& key) {
  return "sluice:" + space + ':' + key;
}

// That of a fixed_window of 100 days.
std::string counter_key(const std::string& space, const std::string& key) {
  constexpr std::chrono::nanoseconds kWindow = std::chrono::days{100};
  const auto number = std::chrono::system_clock::now().time_since_epoch() / kWindow;
  return "sluice:#f" + std::to_string(kWindow.count()) + '.' + std::to_string(number) + ':' +
         space + ':' + key;
}

class ForgetfulMemcached : public testing::TestWithParam<Way> {
 protected:
  // A round whose fault loses what was noted; where units are taken back, that may be at any time.
  static Round lose_in(Load& load, const std::function<void()>& fault) {
    const bool exact = GetParam().takers == 0;
    if (!exact) load.begin_losing();
    return through(load, [&] {
      if (exact) load.begin_losing();
      fault();
      if (exact) load.end_losing();
    });
  }
};

INSTANTIATE_TEST_SUITE_P(Memcached, ForgetfulMemcached,
                         testing::Values(Way{"exact", "?exact=yes", &exact_key, 0},
                                         Way{"counters", "?exact=no", &counter_key,
                                             Load::kCallers}),
                         [](const auto& tested) { return std::string(tested.param.name); });

// Each time every key begins fresh, and is admitted one limit's worth more.
TEST_P(ForgetfulMemcached, IsFlushedUnderLoad) {
  constexpr int kFlushes = 3;
  const MemcachedServer server;
  expect_whole(std::string("flush_all three times, ") + GetParam().name, [&] {
    Load load(server.url() + GetParam().options);
    Round round = lose_in(load, [&] {
      for (int i = 0; i < kFlushes; ++i) {
        server.command("flush_all\r\n");
        run(100ms);
      }
    });
    for (const Admitted& key : round.report.admitted) {
      const std::int64_t most = most_counted(key.limit, kFlushes, GetParam().takers);
      EXPECT_LE(key.by_store, most) << key.key;
      EXPECT_LE(key.otherwise, key.limit) << key.key;
      if (GetParam().takers == 0) EXPECT_LE(key.by_store + key.otherwise, most) << key.key;
    }
    round.never_given_up = true;
    server.command("flush_all\r\n");
    return round;
  });
}

// The same where almost everybody is denied, and has units to take back when the flush comes.
TEST(Memcached, CountersOfADeniedCrowdAreFlushed) {
  constexpr int kFlushes = 50;
  constexpr std::size_t kCallers = 4;
  constexpr std::int64_t kLimit = 20;
  const MemcachedServer server;
  std::atomic<std::int64_t> admitted = 0;
  std::vector<std::jthread> callers;
  for (std::size_t i = 0; i < kCallers; ++i) {
    callers.emplace_back([&](const std::stop_token& stop) {
      // As so many processes have it.
      Limiter limiter(
          open_store(server.url() + "?exact=no&deadline=5s&on_failure=raise&deny_cache=no"),
          Limit("sliding_window 20/10d", "login"));
      while (!stop.stop_requested()) admitted += limiter.check("k").allowed ? 1 : 0;
    });
  }
  for (int flush = 0; flush <= kFlushes; ++flush) {
    const std::int64_t before = admitted;
    if (flush > 0) server.command("flush_all\r\n");
    servers::await("an admission", [&] { return admitted >= before + kLimit / 2; });
  }
  callers.clear();
  EXPECT_LE(admitted, most_counted(kLimit, kFlushes, kCallers));
  std::printf("[  FIGURES ] %d flushes, exact=no: %.2f limits' worth\n", kFlushes,
              static_cast<double>(admitted) / kLimit);
}

// Does not count as a use of it, which would keep it longer.
bool is_kept(const MemcachedServer& server, const std::string& key) {
  return server.command("me " + key + "\r\n") != "EN\r\n";
}

// Values of the size of that key's, with keys of the same length: they take its place.
std::string values_like(const MemcachedServer& server, const std::string& key,
                        const std::string& flags = "") {
  const std::string found = server.command("mg " + key + " s\r\n");
  const std::size_t bytes = std::stoul(found.substr(found.find('s') + 1));
  std::string sets;
  for (int i = 0; i < 30'000; ++i) {
    std::string name = std::to_string(100'000 + i);
    name.insert(0, key.size() - name.size(), 'n');
    sets += "ms " + name + " " + std::to_string(bytes) + " q" + flags + "\r\n" +
            std::string(bytes, 'x') + "\r\n";
  }
  return sets;
}

// One limit's worth more for each time that the key is forgotten.
TEST_P(ForgetfulMemcached, ForgetsForLackOfMemory) {
  constexpr int kLimit = 10;
  constexpr int kEvictions = 3;
  const MemcachedServer server({.arguments = {"-m", "2"}});
  Limiter limiter(
      open_store(server.url() + GetParam().options + "&deadline=5s&on_failure=raise&deny_cache=no"),
      Limit("fixed_window 10/100d", "login"));
  const std::string key = GetParam().key("login", "somebody");
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

// As docs/memcached.md recommends: what would take the place of a limit's state is refused.
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
  EXPECT_THAT(
      [&] { limiter.check("anybody"); },
      testing::ThrowsMessage<StoreError>(testing::HasSubstr("out of memory storing object")));
}

// One limit's worth more for each time that a key is forgotten, which its first unit tells.
TEST_P(ForgetfulMemcached, ForgetsUnderLoad) {
  const MemcachedServer server({.arguments = {"-m", "2"}});
  expect_whole(std::string("memory pressure for 500 ms, ") + GetParam().name, [&] {
    Load load(server.url() + GetParam().options);
    const std::string key = GetParam().key("own", "own-0-0");
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
    const auto takers = static_cast<std::int64_t>(GetParam().takers);
    std::int64_t begun = 0;
    for (const Admitted& each : round.report.admitted) {
      EXPECT_LE(each.by_store, each.begun * (each.limit + takers)) << each.key;
      begun += each.begun;
    }
    std::printf("[  FIGURES ] %zu keys began fresh %d times\n", round.report.admitted.size(),
                static_cast<int>(begun));
    server.command("flush_all\r\n");
    return round;
  });
}

// One connection that ends within a reply, at the place that the test chooses.
class MemcachedReply : public testing::Test {
 protected:
  explicit MemcachedReply(const std::string& option = "exact=yes")
      : limiter_(open_store(url_of(proxy_) + '?' + option + "&deadline=5s&on_failure=deny"),
                 Limit("fixed_window 10/100d")) {}

  // What is answered where there is no value yet.
  std::size_t miss_bytes() const {
    return server_.command("mg none v c O0\r\n").size() + std::string("MN\r\n").size();
  }

  Decision lose_after(std::size_t reply_bytes, const std::string& key) {
    servers::await("the store", [&] { return limiter_.peek("any").source == Source::kStore; });
    proxy_.cut_after(reply_bytes);
    const Decision decision = limiter_.check(key);
    proxy_.pass();
    servers::await("the store", [&] { return limiter_.peek("any").source == Source::kStore; });
    return decision;
  }

  const MemcachedServer server_;
  FaultProxy proxy_{server_.port()};
  Limiter limiter_;
};

// The value is written and the reply does not say so: charged once, and nobody answered.
TEST_F(MemcachedReply, ToAWriteIsLost) {
  for (const std::string key : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(lose_after(miss_bytes() + 1, key).source, Source::kPolicy);
    EXPECT_EQ(limiter_.peek(key).remaining, 9);
  }
}

// What only looks can be asked again, by the next connection.
TEST_F(MemcachedReply, ToAReadIsLost) {
  for (const std::string key : {"a", "b", "c", "d", "e"}) {
    const Decision decision = lose_after(miss_bytes() - 1, key);
    EXPECT_EQ(decision.source, Source::kStore);
    EXPECT_EQ(decision.remaining, 9);
    EXPECT_EQ(limiter_.peek(key).remaining, 9);
  }
}

class CountersReply : public MemcachedReply {
 protected:
  CountersReply() : MemcachedReply("exact=no") {}
};

// The units are added and the reply does not say so: charged once, and nobody answered.
TEST_F(CountersReply, ToAnAdditionIsLost) {
  for (const std::string key : {"a", "b", "c", "d", "e"}) {
    EXPECT_EQ(lose_after(1, key).source, Source::kPolicy);
    EXPECT_EQ(limiter_.peek(key).remaining, 9);
  }
}

// What would have been denied cannot be taken back by anybody, and keeps others out: one unit for
// each reply that was lost.
TEST_F(CountersReply, ToAnAdditionOfOneTooManyIsLost) {
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(limiter_.check("k").allowed);
  for (int lost = 1; lost <= 3; ++lost) EXPECT_EQ(lose_after(1, "k").source, Source::kPolicy);
  EXPECT_EQ(limiter_.refund("k", 3).remaining, 0);
  EXPECT_EQ(limiter_.refund("k", 1).remaining, 1);
}

}  // namespace
}  // namespace sluice::faults

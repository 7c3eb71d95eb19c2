// Against real servers.

#include "stores/memcached/memcached_store.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <thread>

#include "core/fault_under_test.h"
#include "servers/certificates.h"
#include "stores/memcached/keys_under_test.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using servers::MemcachedServer;
using testing::HasSubstr;

constexpr std::int64_t kDayS = 86'400;

// The seconds a server keeps a key yet; -1 for ever, -2 where it has none.
std::int64_t lifetime_s(const MemcachedServer& server, const std::string& key) {
  const std::string answer = server.command("mg " + key + " t\r\n");
  return answer.starts_with("HD t") ? std::stoll(answer.substr(4)) : -2;
}

TEST(MemcachedStore, StoresShareTheirKeys) {
  const MemcachedServer server;
  MemcachedStore here(options({&server}));
  MemcachedStore there(options({&server}));
  Keys mine(here, "token_bucket 5/1h & sliding_log 4/1h");
  Keys theirs(there, "token_bucket 5/1h & sliding_log 4/1h");
  EXPECT_EQ(mine.take("k", 1, kStoreTime).remaining, 3);
  EXPECT_EQ(theirs.take("k", 1, kStoreTime).remaining, 2);
  EXPECT_EQ(mine.take("other", 1, kStoreTime).remaining, 3);
  EXPECT_EQ(mine.reset("k", kStoreTime).remaining, 4);
  EXPECT_EQ(theirs.take("k", 0, kStoreTime).remaining, 4);
  EXPECT_EQ(lifetime_s(server, "sluice:login:k"), -2);
}

TEST(MemcachedStore, TakesAnyKey) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "fixed_window 5/1h", "");
  const std::string long_key(1'000, 'x');
  for (const std::string_view key :
       {std::string_view(), std::string_view("a b"), std::string_view("a\0b", 3),
        std::string_view("a\r\nflush_all\r\n"), std::string_view(long_key)}) {
    EXPECT_EQ(keys.take(key).remaining, 4);
    EXPECT_EQ(keys.take(key).remaining, 3);
  }
}

TEST(MemcachedStore, EveryKeyHasItsExpiry) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  // Its clock may tick between the writing and the looking, but not each time.
  std::int64_t short_s = 0;
  for (const std::string key : {"a", "b", "c"}) {
    Keys(store, "token_bucket 1/10s", "short").take(key, 1, kNow);
    short_s = std::max(short_s, lifetime_s(server, "sluice:short:" + key));
  }
  EXPECT_EQ(short_s, 11);
  // Above thirty days: the server is told a date.
  Keys(store, "fixed_window 5/60d anchor=first", "long").take("k", 1, kNow);
  EXPECT_THAT(lifetime_s(server, "sluice:long:k"),
              testing::AllOf(testing::Ge(60 * kDayS - 3), testing::Le(60 * kDayS + 3)));
  Keys(store, "fixed_window 5/3000w anchor=first", "longest").take("k", 1, kNow);
  EXPECT_GT(lifetime_s(server, "sluice:longest:k"), 10 * 365 * kDayS);
}

// A server's clock ticks once a second: an expiry of 1 s would end before it has passed.
TEST(MemcachedStore, AStateOfASecondIsKeptForAllOfIt) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "fixed_window 1/1s anchor=first");
  const Instant begin = wall_now();
  EXPECT_TRUE(keys.take("k", 1, kStoreTime).allowed);
  while (!keys.take("k", 1, kStoreTime).allowed) {
  }
  EXPECT_GE(wall_now() - begin, kSecondNs);
}

TEST(MemcachedStore, ConnectionsShareTheKeys) {
  const MemcachedServer server;
  const int before = std::stoi(server.stat("total_connections"));
  MemcachedOptions two = options({&server});
  two.connections = 2;
  MemcachedStore store(two);
  Keys keys(store, "token_bucket 5/1h");
  for (const int remaining : {4, 3, 2}) {
    for (int i = 0; i < 100; ++i) {
      EXPECT_EQ(keys.take("k" + std::to_string(i)).remaining, remaining);
    }
  }
  // With the one that asks for this.
  EXPECT_EQ(std::stoi(server.stat("total_connections")) - before, 2 + 1);
}

TEST(MemcachedStore, WhatIsDeniedWritesNothing) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "sliding_log 2/1h");
  keys.take("k", 2);
  const std::string before = server.command("mg sluice:login:k c s t v\r\n");
  const std::string stores = server.stat("cmd_set");
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(keys.take("k").allowed);
  EXPECT_TRUE(keys.take("k", 0).allowed);
  EXPECT_EQ(server.stat("cmd_set"), stores);
  EXPECT_EQ(server.command("mg sluice:login:k c s v\r\n").substr(0, 12), before.substr(0, 12));
}

TEST(MemcachedStore, AForeignValueFailsAlone) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1h");
  server.command("set sluice:login:bad 0 0 5\r\nhello\r\n");
  const std::array requests{keys.request("a"), keys.request("bad"), keys.request("b")};
  std::array<Decision, 3> decisions;
  const std::string error = fault_of([&] { store.decide(requests, kStoreTime, decisions); });
  EXPECT_THAT(error, HasSubstr("the value of 'sluice:login:bad' is damaged"));
  EXPECT_EQ(decisions[0].remaining, 4);
  EXPECT_EQ(decisions[1].source, Source::kUnavailable);
  EXPECT_FALSE(decisions[1].allowed);
  EXPECT_EQ(decisions[2].remaining, 4);
  EXPECT_EQ(keys.reset("bad").remaining, 5);
  EXPECT_EQ(keys.take("bad").remaining, 4);
}

TEST(MemcachedStore, AFlushedServerBeginsAnew) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "fixed_window 5/1h anchor=first");
  keys.take("k", 5);
  EXPECT_FALSE(keys.take("k").allowed);
  EXPECT_EQ(server.command("flush_all\r\n"), "OK\r\n");
  EXPECT_EQ(keys.take("k", 5).remaining, 0);
  EXPECT_FALSE(keys.take("k").allowed);
}

TEST(MemcachedStore, AServerThatComesBackIsUsedAgain) {
  MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "fixed_window 5/1h anchor=first");
  keys.take("k", 5);
  server.kill();
  std::string error;
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  while (error.empty() && std::chrono::steady_clock::now() < deadline) {
    error = fault_of([&] { keys.take("k"); });
  }
  EXPECT_THAT(error, HasSubstr("127.0.0.1:" + std::to_string(server.port())));
  server.restart();
  Decision decision;
  do {
    error = fault_of([&] { decision = keys.take("k", 5); });
  } while (!error.empty() && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(error, "");
  // One limit's worth is lost with the server, and no more.
  EXPECT_TRUE(decision.allowed);
  EXPECT_FALSE(keys.take("k").allowed);
}

TEST(MemcachedStore, AServerThatStandsStillIsNotWaitedFor) {
  MemcachedServer server;
  MemcachedOptions late = options({&server});
  late.deadline = 20ms;
  MemcachedStore store(late);
  Keys keys(store, "fixed_window 5/1h");
  while (!fault_of([&] { keys.take("warm"); }).empty()) {
  }
  server.pause();
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 5; ++i) EXPECT_NE(fault_of([&] { keys.take("k"); }), "");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 2s);
  server.resume();
  const auto deadline = std::chrono::steady_clock::now() + 10s;
  std::string error = "none";
  while (!error.empty() && std::chrono::steady_clock::now() < deadline) {
    error = fault_of([&] { keys.take("k"); });
  }
  EXPECT_EQ(error, "");
}

// With -M a full server refuses instead of forgetting others.
TEST(MemcachedStore, AFullServerIsNoAnswer) {
  const MemcachedServer server({.arguments = {"-m", "2", "-M"}});
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1h");
  keys.take("known");
  // Values of the same size, until there is no room for another.
  const std::string value(server.command("mg sluice:login:known v\r\n").size() - 10, 'x');
  std::string sets;
  for (int i = 0; i < 40'000; ++i) {
    sets += "ms sluice:login:f" + std::to_string(i % 10'000 + 10'000) + std::to_string(i) + " " +
            std::to_string(value.size()) + " q\r\n" + value + "\r\n";
  }
  EXPECT_THAT(server.command(sets), HasSubstr("SERVER_ERROR out of memory"));
  EXPECT_THAT(fault_of([&] { keys.take("unseen"); }), HasSubstr("SERVER_ERROR out of memory"));
  EXPECT_EQ(keys.take("known", 0).remaining, 4);
}

TEST(MemcachedStore, AServerWithoutTokensIsNoAnswer) {
  const MemcachedServer server({.arguments = {"-C"}});
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1h");
  EXPECT_EQ(keys.take("k").remaining, 4);
  EXPECT_THAT(fault_of([&] { keys.take("k"); }), HasSubstr("keeps no cas tokens (-C)"));
}

TEST(MemcachedStore, ALostServerTakesOnlyItsOwnKeysWithIt) {
  MemcachedServer first;
  const MemcachedServer second;
  MemcachedStore store(options({&first, &second}));
  Keys keys(store, "token_bucket 5/1h");
  for (int i = 0; i < 100; ++i) keys.take("k" + std::to_string(i));
  EXPECT_EQ(std::stoi(first.stat("curr_items")) + std::stoi(second.stat("curr_items")), 100);
  const int lost = std::stoi(first.stat("curr_items"));
  EXPECT_GT(lost, 20);
  EXPECT_LT(lost, 80);
  first.kill();
  int unanswered = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string error = fault_of([&] { keys.take("k" + std::to_string(i), 0); });
    unanswered += error.empty() ? 0 : 1;
  }
  EXPECT_EQ(unanswered, lost);
}

TEST(MemcachedStore, SpeaksTlsAndShowsItsCertificate) {
  const MemcachedServer server({.tls = true, .client_certificates = true});
  const auto& files = servers::certificates();
  MemcachedOptions over_tls = options({&server});
  over_tls.servers[0].tls = TlsOptions{
      .ca_file = files.ca, .certificate_file = files.client, .key_file = files.client_key};
  MemcachedStore store(over_tls);
  Keys keys(store, "sliding_log 2000/3000w & sliding_log 2000/2999w");
  EXPECT_EQ(keys.take("k", 2).remaining, 1'998);
  // A value of half a TLS record, each way: a day between two entries makes them long. A longer one
  // memcached 1.6.18 waits for in vain, for it does not see what is left of a record it has read.
  constexpr int kEntries = 550;
  constexpr std::size_t kHalfARecord = 8'192;
  for (int i = 1; i <= kEntries; ++i) keys.take("k", 1, kNow + i * 24 * kHourNs);
  EXPECT_GT(server.command("mg sluice:login:k v\r\n").size(), kHalfARecord);
  EXPECT_EQ(keys.take("k", 0, kNow + kEntries * 24 * kHourNs).remaining, 1'998 - kEntries);
}

TEST(MemcachedStore, AServerWithAnotherCertificateIsNotTrusted) {
  const MemcachedServer server({.tls = true});
  MemcachedOptions over_tls = options({&server});
  over_tls.servers[0].tls = TlsOptions{.ca_file = servers::certificates().stranger_ca};
  MemcachedStore store(over_tls);
  Keys keys(store, "token_bucket 5/1h");
  EXPECT_THAT(fault_of([&] { keys.take("k"); }), HasSubstr("certificate"));
  EXPECT_EQ(server.stat("cmd_get"), "0");
}

TEST(MemcachedStore, TakesTogetherFromOneKeyOnly) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1h");
  const std::array two{keys.request("a"), keys.request("b")};
  EXPECT_THROW(store.decide_all(two, kStoreTime), std::invalid_argument);
  EXPECT_EQ(store.decide_all({two.data(), 1}, kStoreTime).remaining, 4);
  EXPECT_EQ(keys.take("b", 0).remaining, 5);
}

TEST(MemcachedStore, RefusesLogsThatNoItemHolds) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  const auto open = [&](const std::string& expression) {
    return fault_of([&] { store.open_space(Limit(expression).definition()); });
  };
  EXPECT_EQ(open("sliding_log 32768/1h"), "");
  EXPECT_THAT(open("sliding_log 32769/1h"), HasSubstr("at most 32768 fit into a value"));
  EXPECT_THAT(open("sliding_log 20000/1h & sliding_log 20000/1d"), HasSubstr("up to 40000"));
  EXPECT_EQ(open("sliding_window 9007199254740991/1h"), "");
}

TEST(MemcachedStore, ASpaceIsOneLimitsAtATime) {
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  auto space = store.open_space(Limit("token_bucket 5/1h", "login").definition());
  EXPECT_EQ(store.open_space(Limit("token_bucket 6/1h", "login").definition()), space);
  const Limit other("sliding_log 5/1h", "login");
  EXPECT_THROW(store.open_space(other.definition()), StoreError);
  space.reset();
  EXPECT_NE(store.open_space(other.definition()), nullptr);
}

TEST(MemcachedStore, AReplayKeepsKeysForADayAndRemovesThem) {
  const MemcachedServer first;
  const MemcachedServer second;
  const auto items = [&] {
    return std::stoi(first.stat("curr_items")) + std::stoi(second.stat("curr_items"));
  };
  MemcachedOptions replay = options({&first, &second});
  replay.virtual_time = true;
  {
    MemcachedStore store(replay);
    Keys keys(store, "token_bucket 5/1s");
    for (int i = 0; i < 3'000; ++i) keys.take("k" + std::to_string(i), 1, 1'000);
    const std::string last = "sluice:login:k2999";
    EXPECT_GE(std::max(lifetime_s(first, last), lifetime_s(second, last)), kDayS);
    EXPECT_EQ(items(), 3'000);
  }
  EXPECT_EQ(items(), 0);
}

// What one of several processes is admitted, until it is denied.
int admitted_here(const MemcachedOptions& options, const std::string& expression) {
  MemcachedStore store(options);
  Keys keys(store, expression, "race");
  std::atomic<int> admitted{0};
  std::array<std::thread, 2> threads;
  for (auto& thread : threads) {
    thread = std::thread([&] {
      while (keys.take("k", 1, kNow).allowed) ++admitted;
    });
  }
  for (auto& thread : threads) thread.join();
  return admitted;
}

// The sum of what two processes say, which run at the same time.
int sum_of_two(const std::function<int()>& run) {
  std::array<int, 2> pipe{};
  EXPECT_EQ(::pipe(pipe.data()), 0);
  std::array<pid_t, 2> children{};
  for (pid_t& child : children) {
    child = ::fork();
    if (child != 0) continue;
    int result = -1'000'000;
    try {
      result = run();
    } catch (const std::exception&) {
    }
    ::_exit(::write(pipe[1], &result, sizeof result) == sizeof result ? 0 : 1);
  }
  int sum = 0;
  for (const pid_t child : children) {
    int result = -1'000'000;
    EXPECT_EQ(::read(pipe[0], &result, sizeof result), ssize_t{sizeof result});
    sum += result;
    ::waitpid(child, nullptr, 0);
  }
  ::close(pipe[0]);
  ::close(pipe[1]);
  return sum;
}

TEST(MemcachedStore, TwoProcessesOnOneKeyAreAdmittedWhatOneWouldBe) {
  const MemcachedServer server;
  for (const std::string expression :
       {"token_bucket 2000/1h", "leaky_bucket 1/1h queue=1999", "fixed_window 2000/1h",
        "sliding_log 2000/1h", "sliding_window 2000/1h", "sliding_counter 2000/1h",
        "fixed_window 2000/1h & token_bucket 5000/1h"}) {
    const MemcachedOptions racing = options({&server});
    EXPECT_EQ(sum_of_two([&] { return admitted_here(racing, expression); }), 2'000) << expression;
    server.command("flush_all\r\n");
  }
}

}  // namespace
}  // namespace sluice::memcached

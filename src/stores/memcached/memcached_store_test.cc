// Against real servers, and one whose replies the test makes.

#include "stores/memcached/memcached_store.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "net/tls_client.h"
#include "servers/await.h"
#include "servers/certificates.h"
#include "servers/memcached_server.h"
#include "sluice/health.h"
#include "sluice/limit.h"
#include "stores/memcached/key_state.h"
#include "testing/error_of.h"
#include "testing/fake_server.h"
#include "testing/limited_keys.h"

namespace sluice::memcached {
namespace {

using namespace std::chrono_literals;
using servers::MemcachedServer;
using testing::AllOf;
using testing::HasSubstr;

// A whole minute.
constexpr Instant kNow = 1'700'000'040 * kSecondNs;
constexpr std::int64_t kDayS = 86'400;

MemcachedOptions options(std::initializer_list<const MemcachedServer*> all_servers) {
  MemcachedOptions options;
  for (const auto* server : all_servers) {
    options.servers.push_back({.host = "127.0.0.1", .port = server->port()});
  }
  options.deadline = 5s;
  return options;
}

class Keys : public LimitedKeys {
 public:
  Keys(Store& store, std::string_view expression, std::string_view name = "login")
      : LimitedKeys(store, expression, name) {}
};

// One server, and a store on it.
class MemcachedStoreTest : public testing::Test {
 protected:
  const MemcachedServer server_;
  MemcachedStore store_{options({&server_})};
};

// The seconds a server keeps a key yet; -1 for ever, -2 where it has none.
std::int64_t lifetime_s(const MemcachedServer& server, const std::string& key) {
  const std::string answer = server.command("mg " + key + " t\r\n");
  return answer.starts_with("HD t") ? std::stoll(answer.substr(4)) : -2;
}

// Two stores on one server, as two processes have them, each asked by two threads.
TEST(MemcachedStore, TwoProcessesOnOneKeyAreAdmittedWhatOneWouldBe) {
  const MemcachedServer server;
  for (const std::string expression :
       {"token_bucket 500/1h", "sliding_log 500/1h", "fixed_window 500/1h & token_bucket 900/1h"}) {
    MemcachedStore one(options({&server}));
    MemcachedStore other(options({&server}));
    std::atomic<int> admitted = 0;
    std::vector<std::thread> threads;
    for (MemcachedStore* store : {&one, &other, &one, &other}) {
      threads.emplace_back([&, store] {
        Keys keys(*store, expression, "race");
        while (keys.take("k", kNow).allowed) ++admitted;
      });
    }
    for (auto& thread : threads) thread.join();
    EXPECT_EQ(admitted, 500) << expression;
    server.command("flush_all\r\n");
  }
}

// Flushed or evicted, the permits that were given are not known any more: their holders learn it
// when they renew, and meanwhile as many again may be given.
TEST_F(MemcachedStoreTest, PermitsOfAFlushedServerAreHeldNoMore) {
  Keys keys(store_, "concurrency 1");
  keys.permit(Operation::kTake, "k", kNow, 1);
  EXPECT_FALSE(keys.permit(Operation::kTake, "k", kNow, 2).allowed);
  EXPECT_EQ(server_.command("flush_all\r\n"), "OK\r\n");
  EXPECT_TRUE(keys.permit(Operation::kTake, "k", kNow, 2).allowed);
  EXPECT_FALSE(keys.permit(Operation::kRenew, "k", kNow, 1).allowed);
  EXPECT_FALSE(keys.permit(Operation::kTake, "k", kNow, 3).allowed);
}

TEST_F(MemcachedStoreTest, ManyRequestsForOneKeyAreWrittenTogether) {
  Keys keys(store_, "concurrency 1000");
  std::vector<Request> requests;
  for (PermitId i = 1; i <= 1'001; ++i) {
    requests.push_back(keys.request("k"));
    requests.back().permit = i;
  }
  std::vector<Decision> decisions(requests.size());
  store_.decide(requests, kNow, decisions);
  EXPECT_EQ(decisions[999].remaining, 0);
  EXPECT_FALSE(decisions[1'000].allowed);
  EXPECT_LE(std::stoi(server_.stat("cmd_set")), 3);
  for (auto& request : requests) request.operation = Operation::kRelease;
  store_.decide(requests, kNow, decisions);
  EXPECT_EQ(decisions[999].remaining, 1'000);
  EXPECT_FALSE(decisions[1'000].allowed);
  EXPECT_EQ(server_.stat("curr_items"), "0");
}

TEST_F(MemcachedStoreTest, EveryKeyHasItsExpiry) {
  // Its clock may tick between the writing and the looking, but not each time.
  std::int64_t short_s = 0;
  for (const std::string key : {"a", "b", "c"}) {
    Keys(store_, "token_bucket 1/10s", "short").take(key, kNow);
    short_s = std::max(short_s, lifetime_s(server_, "sluice:short:" + key));
  }
  EXPECT_EQ(short_s, 12);
  // Above thirty days: the server is told a date.
  Keys(store_, "fixed_window 5/60d anchor=first", "long").take("k", kNow);
  EXPECT_THAT(lifetime_s(server_, "sluice:long:k"),
              testing::AllOf(testing::Ge(60 * kDayS - 3), testing::Le(60 * kDayS + 3)));
  Keys(store_, "fixed_window 5/3000w anchor=first", "longest").take("k", kNow);
  EXPECT_GT(lifetime_s(server_, "sluice:longest:k"), 10 * 365 * kDayS);
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
      EXPECT_EQ(keys.take("k" + std::to_string(i), kNow).remaining, remaining);
    }
  }
  // With the one that asks for this.
  EXPECT_EQ(std::stoi(server.stat("total_connections")) - before, 2 + 1);
}

// What this process wrote last is not read again; it forgets some of it to stay within its bound.
TEST(MemcachedStore, RememberedValuesAreBounded) {
  constexpr int kKeys = 500;
  const MemcachedServer server;
  MemcachedOptions small = options({&server});
  small.max_kept_bytes = 50'000;
  MemcachedStore store(small);
  Keys keys(store, "token_bucket 5/1h");
  for (int i = 0; i < kKeys; ++i) keys.take(std::to_string(i), kNow);
  const int reads = std::stoi(server.stat("cmd_get"));
  EXPECT_EQ(reads, kKeys);
  for (int i = kKeys; i-- > 0;) keys.take(std::to_string(i), kNow);
  const int remembered = 2 * kKeys - std::stoi(server.stat("cmd_get"));
  EXPECT_LE(remembered, static_cast<int>(small.max_kept_bytes / sizeof(KeyEntry)));
  EXPECT_GT(remembered, 0);
}

TEST_F(MemcachedStoreTest, AForeignValueFailsAlone) {
  Keys keys(store_, "token_bucket 5/1h");
  server_.command("set sluice:login:bad 0 0 5\r\nhello\r\n");
  const std::array requests{keys.request("a"), keys.request("bad"), keys.request("b")};
  std::array<Decision, 3> decisions;
  const std::string error = error_of([&] { store_.decide(requests, kStoreTime, decisions); });
  EXPECT_THAT(error, AllOf(HasSubstr("the value of the key is damaged"),
                           HasSubstr("(key 'sluice:login:bad')")));
  EXPECT_EQ(decisions[0].remaining, 4);
  EXPECT_EQ(decisions[1].source, Source::kUnavailable);
  EXPECT_FALSE(decisions[1].allowed);
  EXPECT_EQ(decisions[2].remaining, 4);
  EXPECT_EQ(keys.reset("bad", kNow).remaining, 5);
  EXPECT_EQ(server_.command("mg sluice:login:bad v\r\n"), "EN\r\n");
  EXPECT_EQ(keys.take("bad", kNow).remaining, 4);
}

// Nothing can be written over a value whose token is not known.
TEST(MemcachedStore, AServerWithoutTokensIsNoAnswer) {
  const MemcachedServer server({.arguments = {"-C"}});
  MemcachedStore store(options({&server}));
  Keys keys(store, "token_bucket 5/1h");
  EXPECT_EQ(keys.take("k", kNow).remaining, 4);
  EXPECT_THAT(error_of([&] { keys.take("k", kNow); }), HasSubstr("keeps no cas tokens (-C)"));
}

// No decision is made from replies that cannot be those to what was sent.
TEST(MemcachedStore, AReplyThatDoesNotFitGivesTheConnectionUp) {
  FakeServer server;
  MemcachedStore store({.servers = {server.endpoint()}, .deadline = 10s});
  Keys keys(store, "fixed_window 5/1h");
  const auto peek = [&] { return error_of([&] { keys.take("k", kNow, 0); }); };
  const auto answer = [&](std::string_view reply) {
    Peer peer = server.accept();
    peer.send("VERSION 1.6.38\r\nMN\r\n");  // First: it is awaited for a second only.
    EXPECT_EQ(peer.lines(2), "version\r\nmn\r\n");
    servers::await("the connection", [&] {
      StoreHealth health;
      store.add_health(health);
      return health.state == StoreHealth::State::kUp;
    });
    auto error = std::async(std::launch::async, peek);
    EXPECT_EQ(peer.lines(2), "mg sluice:login:k v c f O0\r\nmn\r\n");
    peer.send(reply);
    return error.get();
  };
  const std::string error =
      "memcached " + server.endpoint().text() + " has answered something else than what was asked";
  for (const std::string_view reply : {"MN\r\n", "EN O1\r\nMN\r\n", "EN O0\r\nEN O1\r\nMN\r\n",
                                       "HD O0\r\nMN\r\n", "ERROR\r\nERROR\r\nMN\r\n"}) {
    EXPECT_EQ(answer(reply), error) << reply;
    EXPECT_EQ(peek(), error) << "no caller waits for the next handshake";
  }
  EXPECT_EQ(answer("EN O0\r\nMN\r\n"), "");
}

// The replies to one call are as long as the values of its keys.
TEST(MemcachedStore, ReadsLargeValuesOfManyKeys) {
  constexpr int kKeys = 256;
  FakeServer server;
  MemcachedStore store({.servers = {server.endpoint()}, .deadline = 1min});
  Keys keys(store, "concurrency 32768");
  std::vector<std::string> names;
  for (int i = 0; i < kKeys; ++i) names.push_back("k" + std::to_string(i));
  std::vector<Request> requests;
  for (const std::string& name : names) requests.push_back(keys.request(name, 0));
  std::promise<std::string> error;
  auto batch = std::make_unique<Batch>(requests, Batch::Mode::kEach, kNow);
  batch->completion = [&](const Batch& answered) { error.set_value(answered.error()); };
  store.submit(std::move(batch));
  Peer peer = server.accept();
  peer.send("VERSION 1.6.38\r\nMN\r\n");
  peer.lines(2 + kKeys + 1);
  const std::string value(300'000, 'x');
  for (int i = 0; i < kKeys; ++i) {
    peer.send("VA 300000 c1 f0 O" + std::to_string(i) + "\r\n" + value + "\r\n");
  }
  peer.send("MN\r\n");
  EXPECT_THAT(error.get_future().get(), HasSubstr("is damaged"));
}

TEST(MemcachedStore, ALostServerTakesOnlyItsOwnKeysWithIt) {
  MemcachedServer first;
  const MemcachedServer second;
  MemcachedStore store(options({&first, &second}));
  Keys keys(store, "token_bucket 5/1h");
  for (int i = 0; i < 100; ++i) keys.take("k" + std::to_string(i), kNow);
  EXPECT_EQ(std::stoi(first.stat("curr_items")) + std::stoi(second.stat("curr_items")), 100);
  const int lost = std::stoi(first.stat("curr_items"));
  EXPECT_GT(lost, 20);
  EXPECT_LT(lost, 80);
  first.kill();
  int unanswered = 0;
  for (int i = 0; i < 100; ++i) {
    const std::string error = error_of([&] { keys.take("k" + std::to_string(i), kNow, 0); });
    unanswered += error.empty() ? 0 : 1;
  }
  EXPECT_EQ(unanswered, lost);
}

TEST(MemcachedStore, SpeaksTlsAndShowsItsCertificate) {
  const MemcachedServer server({.tls = true, .client_certificates = true});
  const auto& files = servers::certificates();
  MemcachedOptions over_tls = options({&server});
  over_tls.servers[0].tls = std::make_shared<TlsContext>(TlsOptions{
      .ca_file = files.ca, .certificate_file = files.client, .key_file = files.client_key});
  MemcachedStore store(over_tls);
  Keys keys(store, "sliding_log 2000/1h");
  // A value of half a TLS record, each way. A longer one memcached 1.6.18 waits for in vain, for it
  // does not see what is left of a record it has read.
  constexpr int kEntries = 550;
  constexpr std::size_t kHalfARecord = 8'192;
  for (int i = 1; i <= kEntries; ++i) keys.take("k", kNow + i);
  const std::string size = server.command("mg sluice:login:k s\r\n");
  ASSERT_TRUE(size.starts_with("HD s"));
  EXPECT_GT(std::stoul(size.substr(4)), kHalfARecord);
  EXPECT_EQ(keys.take("k", kNow + kEntries, 0).remaining, 2'000 - kEntries);
}

TEST_F(MemcachedStoreTest, RefusesLimitsThatNoItemHolds) {
  const auto open = [&](const std::string& expression) {
    return error_of([&] { store_.open_space(Limit(expression).definition()); });
  };
  EXPECT_EQ(open("sliding_log 32768/1h"), "");
  EXPECT_THAT(open("sliding_log 32769/1h"), HasSubstr("at most 32768 fit into a value"));
  EXPECT_THAT(open("sliding_log 20000/1h & sliding_log 20000/1d"), HasSubstr("up to 40000"));
  EXPECT_EQ(open("sliding_window 9007199254740991/1h"), "");
  EXPECT_EQ(open("concurrency 32768"), "");
  EXPECT_EQ(open("concurrency 32769"),
            "memcached store: 'concurrency 32769' keeps up to 32769 permits for a key, but at most "
            "32768 fit into a value");
}

TEST(MemcachedStore, AReplayKeepsKeysForADay) {
  const MemcachedServer server;
  MemcachedOptions replay = options({&server});
  replay.virtual_time = true;
  MemcachedStore store(replay);
  Keys(store, "token_bucket 5/1s").take("k", 1'000);
  EXPECT_GE(lifetime_s(server, "sluice:login:k"), kDayS);
}

// The largest values that a limit can have, on a server with an item's usual bound.
TEST(MemcachedStore, TheLargestValuesAreReadAndWritten) {
  constexpr std::int64_t kMost = MemcachedStore::kMaxKept;
  constexpr Instant kFull = kNow + kMost;
  const MemcachedServer server;
  MemcachedStore store(options({&server}));
  for (const std::string name : {"sliding_log 32768/1h", "concurrency 32768"}) {
    Keys keys(store, name, name.substr(0, name.find(' ')));
    // The key as it is when one less than the most has been taken.
    KeyState state;
    Request request = keys.request("k");
    for (std::int64_t i = 1; i < kMost; ++i) {
      request.permit = ~static_cast<PermitId>(i);
      ASSERT_TRUE(state.decide(request, kNow + i).allowed);
    }
    std::string value;
    state.write(MemcachedSpace("sluice", *request.limit), value);
    const std::string key = "sluice:" + name.substr(0, name.find(' ')) + ":k ";
    const std::string size = std::to_string(value.size());
    ASSERT_EQ(server.command("ms " + key + size + " T3600\r\n" + value + "\r\n"), "HD\r\n");
    request.permit = 1;
    EXPECT_TRUE(keys.ask(request, kFull).allowed);
    request.permit = 2;
    EXPECT_FALSE(keys.ask(request, kFull).allowed) << name;
  }
}

}  // namespace
}  // namespace sluice::memcached

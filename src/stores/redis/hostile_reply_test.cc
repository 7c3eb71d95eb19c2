// The store against a server whose every reply the test makes.

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "servers/await.h"
#include "stores/redis/part_codec.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/resp.h"
#include "stores/redis/script_call.h"
#include "testing/fake_server.h"
#include "testing/late_answers.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

using testing::HasSubstr;

// The words of the next command.
std::vector<std::string> read_command(Peer& peer) {
  RespFraming framing;  // A command is an array of texts, as a reply may be.
  std::string bytes = peer.line();
  while (framing.reply_bytes(bytes) == 0) {
    const std::string line = peer.line();
    if (line.empty()) throw std::runtime_error("the store sends no command");
    bytes += line;
  }
  const auto command = read_reply(bytes);
  std::vector<std::string> words;
  for (const Reply& word : command.value().elements) words.emplace_back(word.text);
  return words;
}

// A store's connection, once its handshake is answered; `last` is the command that ends it.
Peer accept_store(FakeServer& server, std::string_view last = "EVALSHA") {
  Peer peer = server.accept();
  for (std::string command; command != last;) {
    command = read_command(peer).front();
    peer.send("+OK\r\n");
  }
  return peer;
}

RedisOptions options_of(const FakeServer& server) {
  return {.servers = {server.endpoint()}, .deadline = 20s};
}

RedisOptions in_a_second(const FakeServer& server) {
  RedisOptions options = options_of(server);
  options.deadline = 1s;
  return options;
}

RedisOptions cluster_of(const FakeServer& server) {
  RedisOptions options = options_of(server);
  options.topology = Topology::kCluster;
  return options;
}

RedisOptions sentinels_of(const FakeServer& server) {
  RedisOptions options = options_of(server);
  options.topology = Topology::kSentinel;
  options.primary_name = "it";
  return options;
}

// A store, and its connection to the test's server.
struct Connected {
  explicit Connected(RedisOptions (*options_for)(const FakeServer&))
      : limited(options_for(server), "token_bucket 5/1h"),
        peer(accept_store(server, options_for == sentinels_of ? "CLIENT" : "EVALSHA")) {}

  // Replies to the next command, which is to be this one.
  void answer(std::string_view command, std::string_view reply) {
    EXPECT_EQ(read_command(peer).front(), command);
    peer.send(reply);
  }

  FakeServer server;
  Limited limited;
  Peer peer;
};

// A store that is asked for the key "k" once it has its connection.
struct Asked : Connected {
  using Connected::Connected;
  std::future<Answer> pending = limited.submit("k");
};

// The reply to a call of the script for one key: it is fresh, and one unit of a bucket is admitted.
std::string admission_of(const std::vector<std::string>& evalsha, Instant now) {
  const std::string number = evalsha.at(4).substr(0, 4);
  std::string instant(sizeof now, '\0');
  std::memcpy(instant.data(), &now, sizeof now);
  std::string reply;
  append_text(reply, number + instant + '1' + '\0');
  return reply;
}

TEST(RedisStore, ASentinelThatNamesNoAddressKnowsNoPrimary) {
  for (const std::string& reply :
       {std::string("*-1\r\n"), command_of({"", "6379"}),
        command_of({std::string(256, 'x'), "6379"}), command_of({{"\0x", 2}, "6379"}),
        command_of({"127.0.0.1", "6379abc"}), command_of({"127.0.0.1", "0"}),
        command_of({"127.0.0.1", "65536"})}) {
    Asked asked(sentinels_of);
    asked.answer("SENTINEL", reply);
    EXPECT_THAT(asked.pending.get().error, HasSubstr(" knows no primary 'it'")) << reply;
  }
}

// The server may have executed the requests before the one that failed: none is sent again.
TEST(RedisStore, AnErrorFromWithinTheScriptMayComeAfterRequestsWereCharged) {
  for (const auto& [error, taken] : std::vector<std::pair<std::string, std::int64_t>>{
           {"NOPERM this user has no permissions to run the 'get' command script: f_1, on "
            "@user_script:41.",
            kTakenUnknown},
           {"ERR anything", kTakenUnknown},
           {"NOPERM this user has no permissions to run the 'evalsha' command", 0},
           {"OOM command not allowed", 0},
           {"", 0}}) {
    Asked asked(options_of);
    asked.answer("EVALSHA", "-" + error + "\r\n");
    const Answer answer = asked.pending.get();
    EXPECT_EQ(answer.decision.taken, taken) << error;
    EXPECT_THAT(answer.error, HasSubstr(error));
  }
}

// Behind a balancer the script may be loaded on one server, and be asked for on another.
TEST(RedisStore, AScriptThatIsNeverThereIsAskedForOnlySoOften) {
  Asked asked(options_of);
  for (int i = 0; i <= Connection::kMaxTries; ++i) {
    asked.answer("EVALSHA", "-NOSCRIPT No matching script.\r\n");
    asked.answer("SCRIPT", "+OK\r\n");
  }
  const Answer answer = asked.pending.get();
  EXPECT_EQ(answer.decision.taken, 0);
  EXPECT_THAT(answer.error, HasSubstr(": NOSCRIPT No matching script."));
}

constexpr int kLastSlot = 16'383;

// Another program listens on the port. (What has no line end may be part of a reply.)
TEST(RedisStore, AConnectionOnWhichGarbageComesIsLeft) {
  for (const std::string garbage :
       {"HTTP/1.1 400 Bad Request\r\n\r\n", ":5\r\n", "*0\r\n", "*-1\r\n", "$-1\r\n", "+\r\n",
        "*1000000000\r\n", "$99999999999\r\n", "*3\r\n:1\r\n:2\r\n:3\r\n", "$3\r\nabcdef\r\n",
        "*1\r\n$16\r\n0123456789abcdef\r\n", "\r\n", "\xff\xfe\xfd"}) {
    SCOPED_TRACE(garbage);
    Asked asked(in_a_second);
    asked.answer("EVALSHA", garbage);
    const Answer answer = asked.pending.get();
    EXPECT_THAT(answer.error, HasSubstr(asked.server.endpoint().text()));
    EXPECT_EQ(answer.decision.taken, kTakenUnknown);
    EXPECT_THAT(asked.peer.read_all(), testing::Not(HasSubstr("(timeout)")));
  }
}

TEST(RedisStore, AServerThatGreetsAsAnotherProgramIsLeft) {
  FakeServer server;
  Limited limited(options_of(server), "token_bucket 5/1h");
  auto pending = limited.submit("k");
  Peer peer = server.accept();
  peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  EXPECT_THAT(pending.get().error, HasSubstr(" sent what is no reply"));
  EXPECT_THAT(peer.read_all(), testing::Not(HasSubstr("(timeout)")));
}

TEST(RedisStore, AServerThatIsPartOfAClusterSaysSo) {
  Asked asked(options_of);
  asked.answer("EVALSHA", "-MOVED 0 127.0.0.1:1\r\n");
  EXPECT_THAT(asked.pending.get().error, HasSubstr("redis+cluster://"));
}

// A range in the reply to CLUSTER SLOTS: a node on this machine has these slots.
std::string range_of(int first, int last, std::uint16_t port) {
  return "*3\r\n:" + std::to_string(first) + "\r\n:" + std::to_string(last) +
         "\r\n*2\r\n$0\r\n\r\n:" + std::to_string(port) + "\r\n";
}

// The reply to CLUSTER SLOTS of a node that has the slots up to `last`.
std::string map_of(const FakeServer& node, int last = kLastSlot) {
  return "*1\r\n" + range_of(0, last, node.endpoint().port);
}

TEST(RedisStore, AClusterNamesOnlySoManyNodes) {
  constexpr int kNodes = 1'000;
  Asked asked(cluster_of);
  // The last slots belong to nodes that refuse connections.
  std::string map = "*" + std::to_string(kNodes) + "\r\n";
  map += range_of(0, kLastSlot - kNodes + 1, asked.server.endpoint().port);
  for (int i = 1; i < kNodes; ++i) {
    const int slot = kLastSlot - kNodes + 1 + i;
    map += range_of(slot, slot, static_cast<std::uint16_t>(i));
  }
  asked.answer("CLUSTER", map);
  asked.answer("EVALSHA", "-MOVED 1 127.0.0.1:" + std::to_string(kNodes) + "\r\n");
  EXPECT_THAT(asked.pending.get().error, HasSubstr("the cluster has named more than 1000 nodes"));
}

TEST(RedisStore, AMapOfAClusterThatLacksSlotsIsAskedForAgain) {
  Asked asked(cluster_of);
  asked.answer("CLUSTER", map_of(asked.server, 1));
  EXPECT_THAT(asked.pending.get().error, HasSubstr("no node of the cluster serves the key's slot"));
  asked.answer("CLUSTER", map_of(asked.server));
  auto next = std::async(std::launch::async, [&] {
    servers::await("a decision", [&] { return asked.limited.submit("k").get().error.empty(); });
  });
  const std::vector<std::string> call = read_command(asked.peer);
  EXPECT_EQ(call.front(), "EVALSHA");
  asked.peer.send(admission_of(call, kHourNs));
  next.get();
}

// Else a request that comes meanwhile would overtake those that will be refused as well.
TEST(RedisStore, NoCallIsMadeUntilTheScriptIsLoadedAgain) {
  const std::string no_script = "-NOSCRIPT No matching script.\r\n";
  Asked asked(cluster_of);
  asked.answer("CLUSTER", map_of(asked.server));
  EXPECT_EQ(read_command(asked.peer).front(), "EVALSHA");
  const auto second = asked.limited.submit("k");
  asked.answer("EVALSHA", no_script);  // To the first call.
  asked.answer("SCRIPT", no_script + "+OK\r\n");
  const std::vector<std::string> both = read_command(asked.peer);
  ASSERT_EQ(both.front(), "EVALSHA");
  EXPECT_EQ(both.at(2), "2") << "one call has the keys of both";
}

TEST(RedisStore, SaysWhyTheMapOfAClusterIsNotKnown) {
  for (const auto& [reply, error] : std::vector<std::pair<std::string, std::string>>{
           {"-NOPERM User a has no permissions to run the 'cluster|slots' command\r\n",
            ": NOPERM User a has no permissions"},
           {"*0\r\n", " knows no slots of a cluster"},
           {"+OK\r\n", " has told no map of a cluster"}}) {
    Asked asked(cluster_of);
    asked.answer("CLUSTER", reply);
    EXPECT_THAT(asked.pending.get().error, HasSubstr(error));
    EXPECT_EQ(health_of(asked.limited).state, StoreHealth::State::kDown);
    EXPECT_THAT(health_of(asked.limited).reason, HasSubstr(error));
    asked.answer("CLUSTER", map_of(asked.server));
    servers::await("the map to be known",
                   [&] { return health_of(asked.limited).state == StoreHealth::State::kUp; });
  }
}

TEST(RedisStore, AMapOfAClusterIsAskedOfTheNextNodeIfOneHasNone) {
  FakeServer empty;
  FakeServer server;
  RedisOptions options = cluster_of(empty);
  options.servers.push_back(server.endpoint());
  Limited limited(options, "token_bucket 5/1h");
  auto pending = limited.submit("k");
  Peer first = accept_store(empty);
  EXPECT_EQ(read_command(first).front(), "CLUSTER");
  Peer second = accept_store(server);
  servers::await("both to be connected",
                 [&] { return health_of(limited).state == StoreHealth::State::kUp; });
  first.send("*0\r\n");
  EXPECT_THAT(pending.get().error, HasSubstr(" knows no slots of a cluster"));
  EXPECT_EQ(read_command(second).front(), "CLUSTER");
  second.send(map_of(server));
  servers::await("the map to be known",
                 [&] { return health_of(limited).state == StoreHealth::State::kUp; });
  auto next = limited.submit("k");
  second.send(admission_of(read_command(second), kHourNs));
  EXPECT_EQ(next.get().error, "");
}

// The one that was asked first is the first in their order, too.
TEST(RedisStore, AMapOfAClusterThatLacksSlotsIsAskedOfTheOtherNode) {
  FakeServer one;
  FakeServer two;
  const bool in_order = one.endpoint().text() < two.endpoint().text();
  FakeServer& first = in_order ? one : two;
  FakeServer& second = in_order ? two : one;
  RedisOptions options = cluster_of(first);
  options.servers.push_back(second.endpoint());
  const Limited limited(options, "token_bucket 5/1h");
  Peer asked = accept_store(first);
  EXPECT_EQ(read_command(asked).front(), "CLUSTER");
  Peer other = accept_store(second);
  asked.send("*2\r\n" + range_of(0, 1, first.endpoint().port) +
             range_of(2, 3, second.endpoint().port));
  EXPECT_EQ(read_command(other).front(), "CLUSTER");
}

TEST(RedisStore, SaysWhyTheSentinelsTellNoPrimary) {
  FakeServer primary;
  Asked asked(sentinels_of);
  const std::string error = "NOPERM User a has no permissions to run the 'sentinel' command";
  asked.answer("SENTINEL", "-" + error + "\r\n");
  EXPECT_THAT(asked.pending.get().error, HasSubstr(": " + error));
  EXPECT_EQ(health_of(asked.limited).state, StoreHealth::State::kDown);
  EXPECT_THAT(health_of(asked.limited).reason, HasSubstr(error));
  asked.answer("SENTINEL", command_of({"127.0.0.1", std::to_string(primary.endpoint().port)}));
  const Peer found = accept_store(primary);
  servers::await("the primary to be connected",
                 [&] { return health_of(asked.limited).state == StoreHealth::State::kUp; });
}

// Plays a server that sends `reply` to each question about routes (SENTINEL, CLUSTER SLOTS), after
// which the store is asked for a key, and CLUSTERDOWN to each call of the script. Returns how long
// the store takes for twelve questions.
std::chrono::nanoseconds time_of_twelve(Peer& peer, const std::string& reply, Limited& limited) {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 12;) {
    const bool is_call = read_command(peer).front() == "EVALSHA";
    peer.send(is_call ? "-CLUSTERDOWN The cluster is down\r\n" : reply);
    if (is_call) continue;
    limited.submit("k");
    ++i;
  }
  return std::chrono::steady_clock::now() - begin;
}

// About ten times a second, however many connections to the primary fail.
TEST(RedisStore, SentinelsAreNotAskedForEachConnectionThatFails) {
  FakeServer server;
  const Endpoint nobody = FakeServer().endpoint();
  RedisOptions options = sentinels_of(server);
  options.connections = 16;
  Limited limited(options, "fixed_window 5/1h");
  Peer peer = accept_store(server, "CLIENT");
  const std::string named = command_of({nobody.host, std::to_string(nobody.port)});
  EXPECT_GE(time_of_twelve(peer, named, limited), 800ms);
}

// A node that refuses some of the connections: the pauses grow until they are half a second, less a
// random part of up to a half.
TEST(RedisStore, AMapOfAClusterIsNotAskedForEachConnectionThatFails) {
  FakeServer server;
  RedisOptions options = cluster_of(server);
  options.connections = 16;
  Limited limited(options, "fixed_window 5/1h");
  Peer peer = accept_store(server);
  server.stop_listening();
  EXPECT_GE(time_of_twelve(peer, map_of(server), limited), 2s);
}

// Although callers go on asking, and are told that the cluster is down.
TEST(RedisStore, AMapOfAClusterThatLacksANodeIsAskedForSeldom) {
  Asked asked(cluster_of);
  const std::uint16_t nobody = FakeServer().endpoint().port;
  const int slot = slot_of("sluice:test:{k}");
  const std::string map = "*2\r\n" + range_of(0, slot, asked.server.endpoint().port) +
                          range_of(slot + 1, kLastSlot, nobody);
  EXPECT_GE(time_of_twelve(asked.peer, map, asked.limited), 1500ms);
}

TEST(RedisStore, ARedirectionWithoutAnAddressAsksForTheMap) {
  for (const std::string to : {"?:7000", ":0"}) {
    Asked asked(cluster_of);
    asked.answer("CLUSTER", map_of(asked.server));
    asked.answer("EVALSHA", "-MOVED 1 " + to + "\r\n");
    EXPECT_THAT(asked.pending.get().error, HasSubstr(": MOVED 1 " + to));
    EXPECT_EQ(read_command(asked.peer).front(), "CLUSTER");
  }
}

TEST(RedisStore, RedirectionsEndWithTheFifth) {
  for (const std::string error : {"MOVED", "ASK"}) {
    Asked asked(cluster_of);
    const std::string here = " 0 127.0.0.1:" + std::to_string(asked.server.endpoint().port);
    for (int calls = 0; calls <= Connection::kMaxTries;) {
      const std::string command = read_command(asked.peer).front();
      if (command == "EVALSHA") ++calls;
      asked.peer.send(command == "EVALSHA"  ? "-" + error + here + "\r\n"
                      : command == "ASKING" ? "+OK\r\n"
                                            : map_of(asked.server));
    }
    EXPECT_THAT(asked.pending.get().error, HasSubstr("redirected once too often"));
  }
}

// A node that is overloaded may answer each request after its deadline. Only MOVED names the node
// for the next request, which does not wait for the map then.
TEST(RedisStore, ALateErrorAsksForTheMapOfTheCluster) {
  for (const std::string error :
       {"MOVED", "CLUSTERDOWN Hash slot not served", "READONLY You can't write"}) {
    const bool is_moved = error == "MOVED";
    FakeServer other;
    Asked asked([](const FakeServer& server) {
      RedisOptions options = cluster_of(server);
      options.deadline = 1s;
      return options;
    });
    asked.answer("CLUSTER", map_of(asked.server));
    EXPECT_EQ(read_command(asked.peer).front(), "EVALSHA");
    EXPECT_THAT(asked.pending.get().error, HasSubstr(" did not answer within 1s"));
    const std::string to = " " + std::to_string(slot_of("sluice:test:{k}")) +
                           " 127.0.0.1:" + std::to_string(other.endpoint().port);
    asked.peer.send("-" + error + (is_moved ? to : "") + "\r\n");
    EXPECT_EQ(read_command(asked.peer).front(), "CLUSTER");
    if (!is_moved) asked.peer.send(map_of(other));
    Peer peer = accept_store(other);
    const auto next = asked.limited.submit("k");
    EXPECT_EQ(read_command(peer).front(), "EVALSHA");
  }
}

// No caller waits for it any more, only the store around this one.
TEST(RedisStore, ARequestThatIsRefusedLateIsNotSentAgain) {
  LateAnswers wanted;
  Connected it(in_a_second);
  auto late = it.limited.submit("k", &wanted);
  EXPECT_EQ(read_command(it.peer).front(), "EVALSHA");
  EXPECT_THAT(late.get().error, HasSubstr(" did not answer within 1s"));
  it.peer.send("-NOSCRIPT No matching script.\r\n");
  it.answer("SCRIPT", "+OK\r\n");
  const auto next = it.limited.submit("other");
  const std::vector<std::string> call = read_command(it.peer);
  EXPECT_EQ(call.at(2) + " " + call.at(3), "1 sluice:test:{other}");
}

// This process has had no time to read the reply, which has arrived.
TEST(RedisStore, AServerWhoseReplyIsUnreadIsNotSilent) {
  Connected it([](const FakeServer& server) {
    RedisOptions options = options_of(server);
    options.deadline = 100ms;
    return options;
  });
  const auto first = it.limited.submit("first");
  const std::vector<std::string> call = read_command(it.peer);
  // The completion of a request that is never sent blocks the worker thread.
  const std::string too_long(ScriptCall::kMaxBytes, 'k');
  const Request asked = it.limited.request(too_long);
  auto batch = std::make_unique<Batch>(std::span(&asked, 1));
  std::binary_semaphore has_begun{0};
  std::binary_semaphore may_end{0};
  batch->completion = [&](const Batch&) {
    has_begun.release();
    may_end.acquire();
  };
  it.limited.store().submit(std::move(batch));
  has_begun.acquire();
  it.peer.send(admission_of(call, kHourNs));
  const auto next = it.limited.submit("next");
  servers::await("two deadlines", [end = std::chrono::steady_clock::now() + 200ms] {
    return std::chrono::steady_clock::now() > end;
  });
  may_end.release();
  EXPECT_EQ(read_command(it.peer).at(3), "sluice:test:{next}");
}

TEST(RedisStoreHealth, AConnectionThatIsRenewedAtOnceIsNoLoss) {
  Asked asked(options_of);
  asked.peer.send(admission_of(read_command(asked.peer), kHourNs));
  EXPECT_EQ(asked.pending.get().error, "");
  asked.peer.close();
  auto next = asked.limited.submit("k");
  Peer again = accept_store(asked.server);
  again.send(admission_of(read_command(again), kHourNs));
  EXPECT_EQ(next.get().error, "");
  EXPECT_EQ(health_of(asked.limited).times_lost, 0U);
}

// Also if the refusal comes after the deadline.
TEST(RedisStoreHealth, CountsARequestAsLateOrAsRefused) {
  struct Case {
    std::string late;
    bool is_refused;
  };
  const std::vector<Case> cases = {{"-OOM command not allowed\r\n", true},
                                   {"-BUSY Redis is busy running a script.\r\n", true},
                                   {"-NOSCRIPT No matching script.\r\n", false},
                                   {"-MOVED 1 127.0.0.1:1\r\n", false}};
  const auto two_seconds = [](const FakeServer& server) {
    RedisOptions options = options_of(server);
    options.deadline = 2s;  // A connection that is silent for twice as long is given up.
    return options;
  };
  std::deque<LateAnswers> wanted(cases.size());  // They outlive the stores.
  std::deque<Connected> all;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    Limited& limited = all.emplace_back(two_seconds).limited;
    servers::await("the connection",
                   [&] { return health_of(limited).state == StoreHealth::State::kUp; });
  }
  std::vector<std::future<Answer>> pending;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    pending.push_back(all[i].limited.submit("k", &wanted[i]));
    all[i].answer("EVALSHA", "");
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    pending[i].get();
    all[i].peer.send(cases[i].late);
  }
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto late = [](const StoreHealth& health) {
      return health.late_server + health.late_here;
    };
    StoreHealth health;
    servers::await("its count", [&] {
      health = health_of(all[i].limited);
      return late(health) + health.refused != 0;
    });
    EXPECT_EQ(health.refused, cases[i].is_refused ? 1U : 0U) << cases[i].late;
    EXPECT_EQ(late(health), cases[i].is_refused ? 0U : 1U) << cases[i].late;
  }
}

TEST(RedisWatch, SubscribesOnANewConnectionIfTheServerCouldNot) {
  FakeServer server;
  Limited limited(options_of(server), "concurrency 1");
  const Peer decisions = accept_store(server);
  std::counting_semaphore<> called{0};
  const auto watch = [&](std::string_view key) {
    return limited.store().watch(limited.space(), key, [&called] { called.release(); });
  };
  // A right that the user does not have is no reason to connect again.
  const auto forbidden = watch("forbidden");
  Peer peer = accept_store(server, "CLIENT");
  const auto subscription = [&] {
    auto command = read_command(peer);
    while (command.front() == "PING") command = read_command(peer);  // One each second.
    return command;
  };
  EXPECT_EQ(subscription().front(), "SUBSCRIBE");
  peer.send("-NOPERM No permissions to access a channel\r\n");
  const auto busy = watch("k");
  const std::vector<std::string> subscribe{"SUBSCRIBE", "sluice:test:{k}"};
  EXPECT_EQ(subscription(), subscribe);
  peer.send("-BUSY Redis is busy running a script.\r\n");
  EXPECT_THAT(peer.read_all(), testing::Not(HasSubstr("SUBSCRIBE")));

  Peer next = accept_store(server, "CLIENT");
  std::vector<std::vector<std::string>> again{read_command(next), read_command(next)};
  EXPECT_THAT(again, testing::Contains(subscribe));
  std::string confirmation;
  append_array(confirmation, 3);
  append_text(confirmation, "subscribe");
  append_text(confirmation, subscribe[1]);
  next.send(confirmation + ":1\r\n");
  EXPECT_TRUE(called.try_acquire_for(10s));
}

// Its machine may have vanished: it sends nothing then, not even the end of the connection.
TEST(RedisWatch, LeavesAServerThatAnswersNothing) {
  FakeServer server;
  Limited limited(options_of(server), "concurrency 1");
  const Peer decisions = accept_store(server);
  const auto watch = limited.store().watch(limited.space(), "k", [] {});
  Peer silent = accept_store(server, "CLIENT");
  EXPECT_EQ(read_command(silent).front(), "SUBSCRIBE");
  Peer next = accept_store(server, "CLIENT");
  EXPECT_EQ(read_command(next).front(), "SUBSCRIBE");
}

TEST(RedisStore, AClockThatCannotBeIsNotCompared) {
  for (const auto& [seconds, late_clock] : std::vector<std::pair<std::string, std::string>>{
           {"4000000000", "this process's clock"},  // In 2096.
           {"4000000000x", ""},
           {"99999999999", ""},
           {"-1", ""}}) {
    Asked asked([](const FakeServer& server) {
      RedisOptions options = options_of(server);
      options.client_time = true;
      return options;
    });
    EXPECT_EQ(read_command(asked.peer).front(), "TIME");
    asked.answer("EVALSHA", command_of({seconds, "0"}) + "-OOM\r\n");
    asked.pending.get();
    const StoreHealth health = health_of(asked.limited);
    EXPECT_EQ(health.late_clock, late_clock) << seconds;
    EXPECT_EQ(health.clock_behind, late_clock.empty() ? 0U : 1U) << seconds;
    const auto lag =
        late_clock.empty() ? 0ns : 4'000'000'000s - std::chrono::nanoseconds(wall_now());
    EXPECT_GE(health.clock_lag, lag) << seconds;
    EXPECT_LT(health.clock_lag, lag + 30s) << seconds << ", as late as the reply may be read";
  }
}

TEST(RedisStore, ACallerThatALateClockAnsweredFindsItInTheHealth) {
  FakeServer server;
  Limited limited(options_of(server), "token_bucket 5/1m");
  std::optional<Peer> peer;
  struct Case {
    std::chrono::seconds lag;
    std::uint64_t clock_behind;
  };
  // A clock that is one second late is tolerated. Once it is on time, that is not noted.
  for (const auto& [lag, clock_behind] : {Case{0s, 0}, Case{1s, 0}, Case{2s, 1}, Case{0s, 1}}) {
    const Request asked = limited.request("k");
    auto batch = std::make_unique<Batch>(std::span(&asked, 1));
    std::promise<StoreHealth> told;
    batch->completion = [&](const Batch& answered) {
      EXPECT_EQ(answered.error(), "");
      told.set_value(health_of(limited));
    };
    limited.store().submit(std::move(batch));
    if (!peer) peer = accept_store(server);
    peer->send(admission_of(read_command(*peer), kHourNs - std::chrono::nanoseconds(lag).count()));
    const StoreHealth health = told.get_future().get();
    EXPECT_EQ(health.clock_behind, clock_behind);
    EXPECT_EQ(health.clock_lag, clock_behind == 0 ? 0s : 2s);
    EXPECT_EQ(health.late_clock,
              clock_behind == 0 ? "" : "the clock of redis " + server.endpoint().text());
  }
}

// Another process has written the key since, but not by a clock that is ahead.
TEST(RedisStore, ACallThatTookLongIsNoSignOfALateClock) {
  Asked asked([](const FakeServer& server) {
    RedisOptions options = options_of(server);
    options.client_time = true;
    return options;
  });
  asked.answer("TIME", "-ERR no\r\n");
  const std::vector<std::string> evalsha = read_command(asked.peer);
  const Instant asked_at = wall_now() - kMinuteNs;
  const auto written = static_cast<std::uint32_t>((asked_at + kMinuteNs / 2) / kInstantUnitNs);
  std::string answer = evalsha.at(4).substr(0, 4);  // Its number.
  put(answer, asked_at, '1', '\1');
  answer += "\xf5\x01t";
  put(answer, asked_at, Instant{0}, written, written);
  std::string reply;
  append_text(reply, answer);
  asked.peer.send(reply);
  EXPECT_EQ(asked.pending.get().error, "");
  EXPECT_EQ(health_of(asked.limited).clock_behind, 0U);
}

// On a cluster a call carries one slot, so the calls of a batch wait for each other.
TEST(RedisStore, EachKeyOfABatchOnAClusterHasItsOwnTime) {
  FakeServer server;
  RedisOptions options = cluster_of(server);
  options.deadline = 2s;
  Limited limited(options, "token_bucket 5/1h");
  std::vector<std::string> keys;
  for (int i = 0; i < 400; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Request> requests;
  for (const std::string& key : keys) requests.push_back(limited.request(key));
  auto answered = std::async(std::launch::async, [&] { return sources(limited, requests); });
  Peer peer = accept_store(server);
  EXPECT_EQ(read_command(peer), (std::vector<std::string>{"CLUSTER", "SLOTS"}));
  peer.send(map_of(server));
  for (std::size_t call = 0; call < keys.size(); ++call) {
    const std::vector<std::string> command = read_command(peer);
    // 64 calls are under way at once. Those of the batch together take longer than the deadline.
    if (call % 64 == 0) EXPECT_EQ(answered.wait_for(300ms), std::future_status::timeout);
    peer.send(admission_of(command, kHourNs));
  }
  EXPECT_THAT(answered.get(), testing::Each(Source::kStore));
}

}  // namespace
}  // namespace sluice::redis

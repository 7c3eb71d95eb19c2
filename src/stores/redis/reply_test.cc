#include "stores/redis/reply.h"

#include <gtest/gtest.h>

#include <string>

#include "stores/redis/cluster_slots.h"
#include "stores/redis/resp_framing.h"
#include "stores/redis/server_error.h"
#include "stores/redis/slots.h"

namespace sluice::redis {
namespace {

using namespace std::string_literals;

TEST(Reply, IsReadAsATree) {
  const auto reply = read_reply("*4\r\n:-7\r\n$5\r\na\r\nbc\r\n*-1\r\n*2\r\n+OK\r\n$-1\r\n");
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->elements.size(), 4U);
  EXPECT_EQ(reply->elements[0].integer, -7);
  EXPECT_EQ(reply->elements[1].text, "a\r\nbc");
  EXPECT_EQ(reply->elements[2].kind, Reply::Kind::kNil);
  ASSERT_EQ(reply->elements[3].elements.size(), 2U);
  EXPECT_EQ(reply->elements[3].elements[0].text, "OK");
  EXPECT_EQ(reply->elements[3].elements[1].kind, Reply::Kind::kNil);
  const auto error = read_reply("-ERR no\r\n");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->is_error());
  EXPECT_EQ(error->text, "ERR no");
}

TEST(Reply, IsNothingWhereTheBytesAreNone) {
  std::string deep;
  for (int i = 0; i < 9; ++i) deep += "*1\r\n";
  for (const std::string& bytes :
       {""s, "+OK"s, "x\r\n"s, ":seven\r\n"s, "$3\r\nab\r\n"s, "*2\r\n+a\r\n"s, "+OK\r\n+OK\r\n"s,
        "*1000000000\r\n"s, "$-2\r\n"s, deep + ":1\r\n"}) {
    EXPECT_FALSE(read_reply(bytes)) << bytes;
  }
}

TEST(Reply, CommandsAreArraysOfBulkStrings) {
  std::string output = "before ";
  append_command(output, {"AUTH", "", "p\r\nw"});
  EXPECT_EQ(output, "before *3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\np\r\nw\r\n");
}

TEST(RespFraming, FindsTheEndWhereverTheReplyIsCut) {
  const std::string replies[] = {"+OK\r\n",
                                 "-ERR no\r\n",
                                 ":1\r\n",
                                 "$-1\r\n",
                                 "$0\r\n\r\n",
                                 "$7\r\na\r\nb\r\nc\r\n",
                                 "*0\r\n",
                                 "*-1\r\n",
                                 "*2\r\n*2\r\n:1\r\n$1\r\nx\r\n+OK\r\n",
                                 "%1\r\n+a\r\n*1\r\n_\r\n"};
  for (const std::string& reply : replies) {
    for (std::size_t cut = 0; cut < reply.size(); ++cut) {
      RespFraming framing;
      EXPECT_EQ(framing.reply_bytes(std::string_view(reply).substr(0, cut)), 0U) << reply << cut;
      const std::string more = reply + "+next\r\n";
      EXPECT_EQ(framing.reply_bytes(more), reply.size()) << reply << cut;
      EXPECT_EQ(framing.reply_bytes("+next\r\n"), 7U);
    }
  }
}

TEST(RespFraming, RefusesWhatIsNoReply) {
  for (const std::string& bytes : {"hello\r\n"s, "\r\n"s, "$x\r\n"s, "$3\r\nabcdef"s, "*-2\r\n"s,
                                   "$99999999999\r\n"s, "+"s + std::string(70'000, 'x')}) {
    RespFraming framing;
    EXPECT_EQ(framing.reply_bytes(bytes), Framing::kMalformed) << bytes.substr(0, 20);
  }
}

TEST(ServerError, SaysWhereToGo) {
  const ServerError moved = read_server_error("MOVED 3999 127.0.0.1:6381");
  EXPECT_EQ(moved.kind, ServerError::Kind::kMoved);
  EXPECT_EQ(moved.slot, 3999);
  EXPECT_EQ(moved.host, "127.0.0.1");
  EXPECT_EQ(moved.port, 6381);
  const ServerError ask = read_server_error("ASK 1 ::1:7000");
  EXPECT_EQ(ask.kind, ServerError::Kind::kAsk);
  EXPECT_EQ(ask.host, "::1");
  EXPECT_EQ(read_server_error("MOVED 1 :7000").host, "");
  EXPECT_EQ(read_server_error("MOVED 1 ?:7000").host, "");
  EXPECT_EQ(read_server_error("MOVED 1 :7000").port, 7000);
}

TEST(ServerError, TellsTheKindsApart) {
  using Kind = ServerError::Kind;
  EXPECT_EQ(read_server_error("TRYAGAIN Multiple keys request").kind, Kind::kTryAgain);
  EXPECT_EQ(read_server_error("CLUSTERDOWN The cluster is down").kind, Kind::kClusterDown);
  EXPECT_EQ(read_server_error("LOADING Redis is loading").kind, Kind::kLoading);
  EXPECT_EQ(read_server_error("MASTERDOWN Link with MASTER is down").kind, Kind::kLoading);
  EXPECT_EQ(read_server_error("BUSY Redis is busy").kind, Kind::kBusy);
  EXPECT_EQ(read_server_error("READONLY You can't write").kind, Kind::kReadOnly);
  EXPECT_EQ(read_server_error("NOSCRIPT No matching script").kind, Kind::kNoScript);
  EXPECT_EQ(read_server_error("NOAUTH Authentication required.").kind, Kind::kNoAuth);
  for (const char* other :
       {"ERR MOVED", "OOM command not allowed", "MOVEDX 1 a:1", "", "MOVED", "MOVED 1",
        "MOVED 16384 a:1", "MOVED 1 a:0", "MOVED 1 a", "ASK x a:1"}) {
    EXPECT_EQ(read_server_error(other).kind, Kind::kOther) << other;
  }
}

// The values of the Redis Cluster specification and of CLUSTER KEYSLOT.
TEST(Slots, AreThoseOfRedis) {
  EXPECT_EQ(slot_of("123456789"), 0x31C3);
  EXPECT_EQ(slot_of("foo"), 12'182);
  EXPECT_EQ(slot_of("sluice:login:{foo}"), 12'182);
  EXPECT_EQ(slot_of("{foo}{bar}"), 12'182);
  EXPECT_EQ(slot_of("foo{}{bar}"), slot_of("foo{}{bar}"));
  EXPECT_NE(slot_of("foo{}{bar}"), slot_of("bar"));
}

TEST(ClusterSlots, NameThePrimaryOfEachRange) {
  const auto reply = read_reply(
      "*2\r\n"
      "*4\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n"
      "*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nid\r\n"
      "*3\r\n:5461\r\n:16383\r\n*2\r\n$0\r\n\r\n:7001\r\n");
  ASSERT_TRUE(reply);
  const auto ranges = read_cluster_slots(*reply);
  ASSERT_TRUE(ranges);
  ASSERT_EQ(ranges->size(), 2U);
  EXPECT_EQ((*ranges)[0].host, "127.0.0.1");
  EXPECT_EQ((*ranges)[0].port, 7000);
  EXPECT_EQ((*ranges)[0].last, 5460);
  EXPECT_EQ((*ranges)[1].host, "");
  EXPECT_EQ((*ranges)[1].first, 5461);
}

TEST(Reply, ATextEndsWithALine) {
  EXPECT_TRUE(read_reply("$3\r\nabc\r\n"));
  EXPECT_FALSE(read_reply("$3\r\nabcde"));
}

TEST(ClusterSlots, AreNothingWhereTheReplyIsAnother) {
  for (const char* bytes :
       {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n"}) {
    const auto reply = read_reply(bytes);
    ASSERT_TRUE(reply) << bytes;
    EXPECT_FALSE(read_cluster_slots(*reply)) << bytes;
  }
}

}  // namespace
}  // namespace sluice::redis

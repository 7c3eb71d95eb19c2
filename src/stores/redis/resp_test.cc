#include "stores/redis/resp.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "stores/redis/redis_space.h"

namespace sluice::redis {
namespace {

using namespace std::string_literals;

TEST(Reply, IsReadAsATree) {
  const auto reply = read_reply("*4\r\n:-7\r\n$5\r\na\r\nbc\r\n*-1\r\n*2\r\n+OK\r\n$-1\r\n");
  ASSERT_TRUE(reply);
  ASSERT_EQ(reply->elements.size(), 4U);
  EXPECT_EQ(reply->elements[0].integer, -7);
  EXPECT_EQ(reply->elements[1].text, "a\r\nbc");
  EXPECT_EQ(reply->elements[2].elements.size(), 0U);
  ASSERT_EQ(reply->elements[3].elements.size(), 2U);
  EXPECT_EQ(reply->elements[3].elements[0].text, "OK");
  EXPECT_EQ(reply->elements[3].elements[1].text, "");
  const auto error = read_reply("-ERR no\r\n");
  ASSERT_TRUE(error);
  EXPECT_TRUE(error->is_error());
  EXPECT_EQ(error->text, "ERR no");
}

TEST(Reply, IsNothingWhereTheBytesAreNone) {
  std::string deep;
  for (int i = 0; i < 9; ++i) deep += "*1\r\n";
  for (const std::string& bytes :
       {""s, "+OK"s, "x\r\n"s, ":seven\r\n"s, "$3\r\nab\r\n"s, "$3\r\nabcde"s, "*2\r\n+a\r\n"s,
        "+OK\r\n+OK\r\n"s, "*1000000000\r\n"s, "$-2\r\n"s, deep + ":1\r\n"}) {
    EXPECT_FALSE(read_reply(bytes)) << bytes;
  }
}

// An element takes many more bytes than the three that it may arrive in.
TEST(Reply, HasAMillionElementsAtMost) {
  const auto array_of = [](int count) {
    std::string bytes = "*" + std::to_string(count) + "\r\n";
    for (int i = 0; i < count; ++i) bytes += "+\r\n";
    return bytes;
  };
  const std::string half = array_of(524'287);
  EXPECT_TRUE(read_reply("*2\r\n" + half + half));
  EXPECT_FALSE(read_reply("*3\r\n" + half + half + "+\r\n"));
}

TEST(Reply, CommandsAreArraysOfBulkStrings) {
  EXPECT_EQ(command_of({"AUTH", "", "p\r\nw"}), "*3\r\n$4\r\nAUTH\r\n$0\r\n\r\n$4\r\np\r\nw\r\n");
}

TEST(RespFraming, FindsTheEndWhereverTheReplyIsCut) {
  const std::string replies[] = {"+OK\r\n", "-ERR no\r\n", ":1\r\n",
                                 "$-1\r\n", "$0\r\n\r\n",  "$7\r\na\r\nb\r\nc\r\n",
                                 "*0\r\n",  "*-1\r\n",     "*2\r\n*2\r\n:1\r\n$1\r\nx\r\n+OK\r\n"};
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
  EXPECT_EQ(read_server_error("MOVED 1 :7000").port, 7000);
}

// Also as servers before 7.0 say it, and before 6.2 of users. What comes out of a script may have
// come after something was done: newer servers say first what a command has met, then where.
TEST(ServerError, TellsTheKindsApart) {
  using Kind = ServerError::Kind;
  const std::string where =
      " script: 9a0364b9e99bb480dd25e1f0284c8555f6c7f5a5, on @user_script:102.";
  const std::string before =
      "ERR Error running script (call to f_9a0364b9e99bb480dd25e1f0284c8555f6c7f5a5): "
      "@user_script:102: ";
  const std::string replica = "READONLY You can't write against a read only replica.";
  const std::vector<std::pair<std::string, Kind>> all = {
      {"TRYAGAIN Multiple keys request during rehashing of slot", Kind::kTryAgain},
      {"CLUSTERDOWN Hash slot not served", Kind::kClusterDown},
      // The server does not know the address of the node.
      {"MOVED 1 ?:7000", Kind::kClusterDown},
      {"MOVED 1 :0", Kind::kClusterDown},
      {"ASK 1 ?:7000", Kind::kClusterDown},
      {"LOADING Redis is loading the dataset in memory", Kind::kLoading},
      {"MASTERDOWN Link with MASTER is down", Kind::kLoading},
      {"BUSY Redis is busy running a script. You can only call SCRIPT KILL", Kind::kBusy},
      {replica, Kind::kReadOnly},
      {replica + where, Kind::kOther},
      {before + "@user_script: 102: -" + replica, Kind::kOther},
      {before + "WRONGTYPE Operation against a key holding the wrong kind of value", Kind::kOther},
      {"NOSCRIPT No matching script. Please use EVAL.", Kind::kNoScript},
      {"NOAUTH Authentication required.", Kind::kNoAuth},
      {"NOPERM this user has no permissions to access one of the keys used as arguments",
       Kind::kNoPerm},
      {"NOPERM No permissions to access a key", Kind::kNoPerm},
      {"NOPERM No permissions to access a key" + where, Kind::kOther},
      {"NOPERM User keys has no permissions to run the 'evalsha' command", Kind::kOther},
  };
  for (const auto& [said, kind] : all) EXPECT_EQ(read_server_error(said).kind, kind) << said;
  for (const char* other :
       {"ERR MOVED", "OOM command not allowed", "MOVEDX 1 a:1", "", "MOVED", "MOVED 1",
        "MOVED 16384 a:1", "MOVED 1 a", "ASK x a:1", "ASK 1 a\tb:1"}) {
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

// Of one slot.
std::string range_of(int slot, const std::string& primary) {
  const std::string number = ":" + std::to_string(slot) + "\r\n";
  return "*3\r\n" + number + number + primary;
}

// "first-last host:port" of each.
std::string ranges_in(const std::string& bytes) {
  const auto reply = read_reply(bytes);
  EXPECT_TRUE(reply) << bytes;
  const auto ranges = reply ? read_cluster_slots(*reply) : std::nullopt;
  if (!ranges) return "none";
  std::string text;
  for (const SlotRange& range : *ranges) {
    text += std::to_string(range.first) + "-" + std::to_string(range.last) + " " + range.host +
            ":" + std::to_string(range.port) + "\n";
  }
  return text;
}

TEST(ClusterSlots, NameThePrimaryOfEachRange) {
  EXPECT_EQ(ranges_in("*2\r\n"
                      "*4\r\n:0\r\n:5460\r\n*3\r\n$9\r\n127.0.0.1\r\n:7000\r\n$2\r\nid\r\n"
                      "*3\r\n$9\r\n127.0.0.1\r\n:7003\r\n$2\r\nid\r\n"
                      "*3\r\n:5461\r\n:16383\r\n*2\r\n$0\r\n\r\n:7001\r\n"),
            "0-5460 127.0.0.1:7000\n5461-16383 :7001\n");
}

TEST(ClusterSlots, LeaveOutARangeWhosePrimaryHasNoAddress) {
  const std::string no_port = "*3\r\n$0\r\n\r\n:0\r\n$2\r\nid\r\n";
  const std::string no_name = "*3\r\n$1\r\n?\r\n:7000\r\n$2\r\nid\r\n";
  const std::string other_metadata =
      "*4\r\n$1\r\n?\r\n:7000\r\n$2\r\nid\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n";
  EXPECT_EQ(ranges_in("*4\r\n" + range_of(1, no_port) + range_of(2, no_name) +
                      range_of(3, other_metadata) + range_of(4, "*2\r\n$1\r\na\r\n:7001\r\n")),
            "4-4 a:7001\n");
}

// With cluster-preferred-endpoint-type hostname.
TEST(ClusterSlots, OfANodeWithoutANameHaveItsAddress) {
  EXPECT_EQ(
      ranges_in("*1\r\n" + range_of(1,
                                    "*4\r\n$1\r\n?\r\n:7000\r\n$2\r\nid\r\n"
                                    "*4\r\n$1\r\na\r\n$1\r\nb\r\n$2\r\nip\r\n$8\r\n10.0.0.7\r\n")),
      "1-1 10.0.0.7:7000\n");
}

TEST(ClusterSlots, AreNothingWhereTheReplyIsAnother) {
  for (const char* bytes :
       {"+OK\r\n", "*1\r\n:1\r\n", "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n:65536\r\n", "*1\r\n*2\r\n:0\r\n:1\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\na\r\n$1\r\nb\r\n",
        "*1\r\n*3\r\n:0\r\n:1\r\n*2\r\n$1\r\n\x1f\r\n:1\r\n"}) {
    EXPECT_EQ(ranges_in(bytes), "none") << bytes;
  }
}

}  // namespace
}  // namespace sluice::redis

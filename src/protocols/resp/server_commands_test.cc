#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>

#include "sluice/store.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using ServerCommandsTest = CommandsTest<still_store>;

TEST_F(ServerCommandsTest, DescribesACommandWithItsFlagsAndKeys) {
  EXPECT_EQ(
      run("COMMAND INFO sluice.peek foo del"),
      "*3\r\n*10\r\n$11\r\nsluice.peek\r\n:3\r\n*2\r\n+readonly\r\n+fast\r\n:2\r\n:2\r\n:1\r\n"
      "*0\r\n*0\r\n*0\r\n*0\r\n$-1\r\n"
      "*10\r\n$3\r\ndel\r\n:-2\r\n*2\r\n+write\r\n+admin\r\n:1\r\n:-1\r\n:1\r\n*0\r\n*0\r\n*0\r\n*"
      "0\r\n");
}

TEST_F(ServerCommandsTest, DescribesSubcommands) {
  EXPECT_THAT(run("COMMAND INFO config"),
              AllOf(StartsWith("*1\r\n*10\r\n$6\r\nconfig\r\n:-2\r\n"),
                    HasSubstr("*2\r\n*10\r\n$10\r\nconfig|get\r\n:-3\r\n")));
  EXPECT_THAT(run("COMMAND INFO config|get"), StartsWith("*1\r\n*10\r\n$10\r\nconfig|get\r\n"));
}

TEST_F(ServerCommandsTest, DocumentsACommand) {
  EXPECT_EQ(run("COMMAND DOCS foo"), "*0\r\n");
  EXPECT_EQ(run("COMMAND DOCS SLUICE.CHECK"),
            "*2\r\n$12\r\nsluice.check\r\n*10\r\n"
            "$7\r\nsummary\r\n$27\r\nTakes cost units, or denies\r\n$5\r\ngroup\r\n$6\r\nlimits\r\n"
            "$9\r\narguments\r\n*3\r\n"
            "*4\r\n$4\r\nname\r\n$5\r\nlimit\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
            "*4\r\n$4\r\nname\r\n$3\r\nkey\r\n$4\r\ntype\r\n$3\r\nkey\r\n"
            "*6\r\n$4\r\nname\r\n$4\r\ncost\r\n$4\r\ntype\r\n$6\r\nstring\r\n"
            "$5\r\nflags\r\n*1\r\n+optional\r\n"
            "$6\r\nsyntax\r\n$16\r\nlimit key [cost]\r\n"
            "$5\r\nreply\r\n$63\r\n"
            "allowed, limit, remaining, retry_after, reset_after, delay (ms)\r\n");
}

TEST_F(ServerCommandsTest, Helps) {
  EXPECT_THAT(run("CONFIG HELP"),
              AllOf(StartsWith("*5\r\n+CONFIG <subcommand> "),
                    HasSubstr("+GET pattern [pattern ...]\r\n+    Replies the parameters")));
  EXPECT_THAT(run("CLIENT HELP"), HasSubstr("+SETNAME name\r\n"));
  EXPECT_THAT(run("COMMAND HELP"), HasSubstr("+DOCS [name ...]\r\n"));
}

TEST_F(ServerCommandsTest, TellsWhatIsConfigured) {
  EXPECT_EQ(run("CONFIG GET save"), "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
  EXPECT_EQ(run("CONFIG GET S* *imeout *x*y*"),
            "*4\r\n$4\r\nsave\r\n$0\r\n\r\n$7\r\ntimeout\r\n$1\r\n0\r\n");
  EXPECT_EQ(run("CONFIG GET *a*a*s*"), "*2\r\n$9\r\ndatabases\r\n$1\r\n1\r\n");
  EXPECT_EQ(run("CONFIG GET foo ''"), "*0\r\n");
  EXPECT_EQ(run("CONFIG SET save x"), "-ERR unknown subcommand 'SET'. Try CONFIG HELP.\r\n");
}

TEST_F(ServerCommandsTest, TellsTheTimeOfTheStore) {
  *store->clock = 1'700'000'000'000'001'999;
  EXPECT_EQ(run("TIME"), "*2\r\n$10\r\n1700000000\r\n$1\r\n1\r\n");
}

TEST_F(ServerCommandsTest, CountsKeysWhereTheStoreCan) {
  EXPECT_THAT(run("DBSIZE"), StartsWith("-ERR the store is on another machine"));
  TestConnection in_memory(thread_over(open_store("memory:")));
  EXPECT_EQ(in_memory.send("DBSIZE\r\n"), ":0\r\n");
  in_memory.send(
      "CL.THROTTLE a 1 1 3600\r\nCL.THROTTLE b 1 1 3600\r\n"
      "SLUICE.CHECK 'sliding_log 5/1h' a\r\n");
  EXPECT_EQ(in_memory.send("DBSIZE\r\n"), ":3\r\n");
  EXPECT_THAT(in_memory.send("INFO keyspace\r\n"),
              EndsWith("# Keyspace\r\ndb0:keys=3,expires=3\r\n\r\n"));
}

TEST_F(ServerCommandsTest, ListsTheConnections) {
  TestConnection other(thread, 9, {.peer = "::1", .peer_with_port = "[::1]:50000"});
  other.send(
      "HELLO 3 SETNAME other\r\nCLIENT SETINFO LIB-NAME lib\r\nCLIENT SETINFO LIB-VER 2\r\n");
  *store->clock += 5'000'000'000;
  const std::string line = run("CLIENT INFO");
  EXPECT_THAT(line, AllOf(HasSubstr("id=7 "), HasSubstr(" name= age=5 "), HasSubstr(" resp=2 ")));
  const std::string all = run("CLIENT LIST");
  EXPECT_THAT(all, AllOf(HasSubstr("\nid=9 addr=[::1]:50000 "), HasSubstr(" name=other "),
                         HasSubstr(" resp=3 "), HasSubstr(" lib-name=lib lib-ver=2\n")));
  EXPECT_EQ(run("CLIENT LIST TYPE normal"), all);
  EXPECT_EQ(run("CLIENT LIST TYPE replica"), "$0\r\n\r\n");
  {
    TestConnection third(thread, 10);
    EXPECT_THAT(run("INFO clients"), HasSubstr("connected_clients:3\r\n"));
  }
  EXPECT_THAT(run("INFO clients"), HasSubstr("connected_clients:2\r\n"));
  EXPECT_THAT(run("INFO stats"), HasSubstr("total_connections_received:3\r\n"));
}

TEST_F(ServerCommandsTest, TellsEachSection) {
  EXPECT_EQ(run("INFO foo"), "$0\r\n\r\n");
  EXPECT_EQ(run("INFO REPLICATION"),
            "$48\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n");
  EXPECT_THAT(run("INFO"),
              AllOf(HasSubstr("# Server\r\nsluice_version:"), HasSubstr("\r\n\r\n# Clients\r\n"),
                    HasSubstr("# Memory\r\nused_memory:"), HasSubstr("# Stats\r\n"),
                    HasSubstr("# Commandstats\r\n"), HasSubstr("# Keyspace\r\n"),
                    HasSubstr("# Sluice\r\nstore:")));
  EXPECT_THAT(run("INFO clients STATS"), AllOf(HasSubstr("# Clients\r\n"), HasSubstr("# Stats\r\n"),
                                               Not(HasSubstr("# Server\r\n"))));
  *store->clock += 7'900'000'000;
  EXPECT_THAT(run("INFO server"), HasSubstr("uptime_in_seconds:7\r\n"));
}

// A command that repeats the one before is not parsed, but it is counted.
TEST_F(ServerCommandsTest, CountsCommands) {
  const std::string throttle = array({"CL.THROTTLE", "user", "15", "30", "60"});
  connection.send(array({"RL.THROTTLE", "user", "15", "30", "60"}) + throttle + throttle +
                  "PING\r\n" + throttle + "FOO\r\nCL.THROTTLE x\r\nRL.THROTTLE x\r\nEXEC 1\r\n");
  connection.send("MULTI\r\nPING\r\nEXEC\r\nCLIENT ID\r\nCLIENT ID 1\r\n");
  connection.send("MULTI\r\nSLUICE.TOP\r\nDISCARD\r\n");
  EXPECT_THAT(run("INFO commandstats"),
              AllOf(HasSubstr("cmdstat_cl.throttle:calls=4,rejected_calls=2\r\n"),
                    HasSubstr("cmdstat_multi:calls=2,rejected_calls=0\r\n"),
                    HasSubstr("cmdstat_exec:calls=1,rejected_calls=1\r\n"),
                    HasSubstr("cmdstat_ping:calls=2,rejected_calls=0\r\n"),
                    HasSubstr("cmdstat_client:calls=2,rejected_calls=0\r\n"),
                    HasSubstr("cmdstat_client|id:calls=1,rejected_calls=1\r\n"),
                    HasSubstr("cmdstat_sluice.top:calls=0,rejected_calls=1\r\n"),
                    HasSubstr("cmdstat_info:calls=1,rejected_calls=0\r\n"),
                    Not(HasSubstr("cmdstat_rl.throttle")), Not(HasSubstr("cmdstat_time"))));
}

TEST_F(ServerCommandsTest, CountsDecisionsByOutcomeAndSource) {
  for (int i = 0; i < 7; ++i) run("SLUICE.CHECK login bob");
  run("SLUICE.CHECK 'token_bucket 9/1s' bob");
  run("SLUICE.REFUND login bob 1\r\nSLUICE.RESET login bob");  // They are no decisions.
  EXPECT_THAT(
      run("INFO sluice"),
      AllOf(HasSubstr("\r\nlimits:1\r\n"), HasSubstr("\r\nallowed_store:6\r\n"),
            HasSubstr("\r\ndenied_store:2\r\n"), HasSubstr("\r\ndenied_unavailable:0\r\n")));
  EXPECT_EQ(run("SLUICE.LIMITS"),
            "*2\r\n*4\r\n$5\r\nlogin\r\n$17\r\ntoken_bucket 5/1s\r\n:5\r\n:2\r\n"
            "*4\r\n$7\r\n(other)\r\n$0\r\n\r\n:1\r\n:0\r\n");
}

TEST_F(ServerCommandsTest, ListsTheKeysDeniedMost) {
  for (int i = 0; i < 8; ++i) run("SLUICE.CHECK login bob");
  run("SLUICE.CHECK login ann 6\r\nSLUICE.PEEK login ann\r\nSLUICE.CHECK login eve");
  EXPECT_EQ(run("SLUICE.TOP login"),
            "*2\r\n*3\r\n$3\r\nbob\r\n:3\r\n:0\r\n*3\r\n$3\r\nann\r\n:1\r\n:0\r\n");
  EXPECT_EQ(run("SLUICE.TOP login 1"), "*1\r\n*3\r\n$3\r\nbob\r\n:3\r\n:0\r\n");
  EXPECT_EQ(run("SLUICE.TOP (other)"), "*0\r\n");
  EXPECT_EQ(run("SLUICE.TOP lgoin"), "-ERR no limit is named 'lgoin' (did you mean 'login'?)\r\n");
  EXPECT_THAT(run("SLUICE.TOP login 1001"), HasSubstr("-ERR"));
}

TEST_F(ServerCommandsTest, TellsHowTheStoreIs) {
  EXPECT_THAT(run("INFO sluice"), HasSubstr("\r\nstore_state:down\r\n"));
  store->health = {.state = StoreHealth::State::kUp,
                   .round_trip_p50 = std::chrono::nanoseconds(120'001),
                   .round_trip_p99 = std::chrono::microseconds(3'400),
                   .evicted = 5,
                   .without_room = 6};
  EXPECT_THAT(run("INFO sluice"),
              HasSubstr("\r\nstore_state:up\r\nround_trip_p50_usec:121\r\n"
                        "round_trip_p99_usec:3400\r\nevicted_keys:5\r\nwithout_room:6\r\n"));
  TestConnection in_memory(thread_over(open_store("memory:")));
  EXPECT_THAT(in_memory.send("INFO sluice\r\n"),
              HasSubstr("\r\nstore_state:up\r\nround_trip_p50_usec:0\r\n"
                        "round_trip_p99_usec:0\r\nevicted_keys:0\r\nwithout_room:0\r\n"));
}

// Counts of decisions include those of earlier requests, also in one pipeline.
TEST_F(ServerCommandsTest, TellsWhatWasDecidedBefore) {
  EXPECT_THAT(
      run("SLUICE.CHECK login a\r\nSLUICE.LIMITS\r\nSLUICE.CHECK login a\r\nINFO sluice"),
      AllOf(HasSubstr("token_bucket 5/1s\r\n:1\r\n:0\r\n"), HasSubstr("allowed_store:2\r\n")));
  EXPECT_THAT(run("MULTI\r\nSLUICE.CHECK login a\r\nINFO sluice\r\nINFO commandstats\r\nEXEC"),
              AllOf(HasSubstr("allowed_store:3\r\n"), HasSubstr("cmdstat_info:calls=3,")));
  TestConnection in_memory(thread_over(open_store("memory:")));
  EXPECT_THAT(in_memory.send("CL.THROTTLE a 1 1 3600\r\nDBSIZE\r\n"), EndsWith(":1\r\n"));
}

}  // namespace
}  // namespace sluice::resp

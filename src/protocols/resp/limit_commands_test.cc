#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "service/permit_text.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::HasSubstr;
using testing::MatchesRegex;
using testing::StartsWith;

class LimitCommandsTest : public CommandsTest<memory_store> {
 protected:
  // Acquires a permit of "concurrency 2 lease=1h".
  std::string acquire(const std::string& key) {
    const std::string reply = run("SLUICE.ACQUIRE 'concurrency 2 lease=1h' " + key);
    EXPECT_THAT(reply, MatchesRegex("\\*3\r\n:1\r\n\\$17\r\ns[0-9a-f]{16}\r\n:3600000\r\n"));
    return reply.substr(reply.find("$17\r\n") + 5, 17);
  }
};

const std::string kLog = " 'sliding_log 5/1h' ";

TEST_F(LimitCommandsTest, TakesUnitsAndGivesThemBack) {
  TestConnection still(thread_over(still_store()));
  const auto on = [&](const std::string& command, const std::string& rest) {
    return still.send("SLUICE." + command + kLog + rest + "\r\n");
  };
  const std::string fresh = integers({1, 5, 5, 0, 0, 0});
  for (int i = 0; i < 2; ++i) EXPECT_EQ(on("PEEK", "a"), fresh);
  EXPECT_EQ(on("CHECK", "a 2"), integers({1, 5, 3, 0, 3'600'000, 0}));
  EXPECT_EQ(on("PEEK", "a"), integers({1, 5, 3, 0, 3'600'000, 0}));
  EXPECT_EQ(on("CHECK", "a 4"), integers({0, 5, 3, 3'600'000, 3'600'000, 0}));
  EXPECT_EQ(on("CHECK", "a 6"), integers({0, 5, 3, -1, 3'600'000, 0}));
  EXPECT_EQ(on("CHECK", "a 0"), integers({1, 5, 3, 0, 3'600'000, 0}));
  EXPECT_EQ(on("RESET", "a"), "+OK\r\n");
  EXPECT_EQ(on("PEEK", "a"), fresh);
  EXPECT_EQ(on("TAKE", "b"), integers({1, 5, 4, 0, 3'600'000, 0, 1}));
  EXPECT_EQ(on("TAKE", "b 9"), integers({1, 5, 0, 0, 3'600'000, 0, 4}));
  EXPECT_EQ(on("TAKE", "b 9"), integers({0, 5, 0, 3'600'000, 3'600'000, 0, 0}));
  EXPECT_EQ(on("REFUND", "b 2"), integers({1, 5, 2, 0, 3'600'000, 0}));
  EXPECT_EQ(on("CHARGE", "b 4"), integers({1, 5, 0, 0, 3'600'000, 0}));
  EXPECT_EQ(on("CHECK", "b"), integers({0, 5, 0, 3'600'000, 3'600'000, 0}));
  EXPECT_EQ(on("BLOCK", "c 60000"), integers({1, 5, 0, 0, 60'000, 0}));
  EXPECT_EQ(on("CHECK", "c"), integers({0, 5, 0, 60'000, 60'000, 0}));
  EXPECT_EQ(on("RESET", "c"), "+OK\r\n");
  EXPECT_EQ(on("CHECK", "c"), integers({1, 5, 4, 0, 3'600'000, 0}));
  const std::string bucket = "SLUICE.CHECK 'leaky_bucket 1/1h queue=4' a\r\n";
  EXPECT_EQ(still.send(bucket + bucket),
            integers({1, 5, 4, 0, 3'600'000, 0}) + integers({1, 5, 3, 0, 7'200'000, 3'600'000}));
}

TEST_F(LimitCommandsTest, NamesTheArgumentAtFault) {
  EXPECT_EQ(run("SLUICE.REFUND" + kLog + "a -1"), "-ERR n must be at least 0\r\n");
  EXPECT_EQ(run("SLUICE.CHARGE" + kLog + "a x"), "-ERR n is not an integer or out of range\r\n");
  EXPECT_EQ(run("SLUICE.TAKE" + kLog + "a -1"), "-ERR n must be at least 0\r\n");
  EXPECT_EQ(run("SLUICE.BLOCK" + kLog + "a 0"), "-ERR ms must be at least 1\r\n");
  EXPECT_EQ(run("SLUICE.BLOCK" + kLog + "a 2305843009214"),
            "-ERR ms must be at most 2305843009213\r\n");
  EXPECT_EQ(run("SLUICE.TAKE" + kLog + "a 1 1"),
            "-ERR wrong number of arguments for 'sluice.take' command\r\n");
}

TEST_F(LimitCommandsTest, LendsPermits) {
  const std::string one = acquire("a");
  const std::string two = acquire("a");
  EXPECT_NE(one, two);
  EXPECT_THAT(run("SLUICE.ACQUIRE 'concurrency 2 lease=1h' a"),
              MatchesRegex("\\*3\r\n:0\r\n\\$-1\r\n:(3600000|359[0-9]{4})\r\n"));
  run("HELLO 3");
  EXPECT_THAT(run("SLUICE.ACQUIRE 'concurrency 2 lease=1h' a"), StartsWith("*3\r\n:0\r\n_\r\n:3"));
}

TEST_F(LimitCommandsTest, RefusesWhatIsNoPermit) {
  acquire("a");
  for (const std::string text : {"''", "x", "s123", "s00000000000000000", "x0123456789abcdef",
                                 "s0123456789abcdeg", "s0000000000000000", "s+123456789abcdef"}) {
    EXPECT_EQ(run("SLUICE.RELEASE 'concurrency 2 lease=1h' a " + text),
              "-ERR this is no permit: SLUICE.ACQUIRE replies with one\r\n")
        << text;
  }
}

TEST_F(LimitCommandsTest, TellsPermitsFromUnits) {
  const std::string units =
      "-ERR 'login' lends no permits, as a concurrency limit does: SLUICE.CHECK takes units from "
      "it\r\n";
  EXPECT_EQ(run("SLUICE.ACQUIRE login a"), units);
  EXPECT_EQ(run("SLUICE.RELEASE login a s0123456789abcdef"), units);
  EXPECT_EQ(run("SLUICE.RENEW login a s0123456789abcdef"), units);
  for (const std::string command :
       {"SLUICE.CHECK", "SLUICE.TAKE", "SLUICE.REFUND", "SLUICE.CHARGE"}) {
    EXPECT_THAT(run(command + " 'concurrency 2' a 1"), HasSubstr("lends permits: SLUICE.ACQUIRE"));
  }
  // What takes no units fits every limit.
  EXPECT_EQ(run("SLUICE.PEEK 'concurrency 2' a"), integers({1, 2, 2, 0, 0, 0}));
  EXPECT_EQ(run("SLUICE.CHECK 'concurrency 2' a 0"), integers({1, 2, 2, 0, 0, 0}));
  EXPECT_EQ(run("SLUICE.RESET 'concurrency 2' a"), "+OK\r\n");
  EXPECT_THAT(run("SLUICE.BLOCK 'concurrency 2' a 1000"), StartsWith("*6\r\n:1\r\n:2\r\n:0\r\n"));
}

TEST_F(LimitCommandsTest, TellsThePartsOfOneLimit) {
  EXPECT_EQ(run("SLUICE.CHECKALL 1 'fixed_window 9/1d anchor=first & sliding_log 5/1h' a 2"),
            "*4\r\n:1\r\n" + integers({1, 5, 3, 0, 3'600'000, 0}) +
                integers({1, 9, 7, 0, 86'400'000, 0}) + integers({1, 5, 3, 0, 3'600'000, 0}));
}

TEST_F(LimitCommandsTest, AsksTogetherInAPipelineAndInATransaction) {
  const std::string one = "SLUICE.CHECK login a\r\n";
  const std::string both = "SLUICE.CHECKALL 2 login a 1 login b 1\r\n";
  auto fake = still_store();
  TestConnection over_fake(thread_over(fake));
  const std::string expected = integers({1, 5, 4, 0, 200, 0}) + "*4\r\n:0\r\n" +
                               integers({1, 5, 3, 0, 400, 0}) + integers({1, 5, 3, 0, 400, 0}) +
                               integers({1, 5, 4, 0, 200, 0}) + "+PONG\r\n" +
                               integers({1, 5, 2, 0, 600, 0});
  EXPECT_EQ(over_fake.send(one + both + "PING\r\n" + one), expected);
  EXPECT_THAT(fake->batches, testing::ElementsAre(1, 2, 1));
  *fake->clock += 10'000'000'000;
  over_fake.send("MULTI\r\n" + one + both + "PING\r\n" + one);
  EXPECT_EQ(over_fake.send("EXEC\r\n"), "*4\r\n" + expected);
  // Denied by the first, of which 2 are left; the second one is not charged.
  EXPECT_EQ(over_fake.send("SLUICE.CHECKALL 2 login a 3 login b 1\r\n"),
            "*4\r\n:0\r\n" + integers({0, 5, 2, 200, 600, 0}) + integers({0, 5, 2, 200, 600, 0}) +
                integers({1, 5, 4, 0, 200, 0}));
  const auto later = later_store();
  TestConnection over_later(thread_over(later));
  later->answers = ScriptedStore::Answers::kAtOnce;
  EXPECT_EQ(over_later.send(one + both + "PING\r\n" + one), expected);
}

TEST_F(LimitCommandsTest, SaysWhyItCannotAskTogether) {
  EXPECT_EQ(run("SLUICE.CHECKALL 2 login a 1"),
            "-ERR n must be the number of claims: limit key cost\r\n");
  EXPECT_EQ(run("SLUICE.CHECKALL 17 login a 1"), "-ERR n must be at most 16\r\n");
  EXPECT_EQ(run("SLUICE.CHECKALL 1 login a -1"), "-ERR cost must be at least 0\r\n");
  EXPECT_EQ(run("SLUICE.CHECKALL 1 lgoin a 1"),
            "-ERR no limit is named 'lgoin' (did you mean 'login'?)\r\n");
  EXPECT_EQ(run("SLUICE.CHECKALL 2 login a 1 login a 1"),
            "-ERR the limit 'login' is named twice for one key\r\n");
  EXPECT_THAT(run("SLUICE.CHECKALL 2 login a 1 'concurrency 2' a 1"), StartsWith("-ERR permits"));
  const auto later = later_store();
  later->says = [](const Request&) -> Decision {
    throw std::invalid_argument("these keys are far apart");
  };
  TestConnection over_later(thread_over(later));
  later->answers = ScriptedStore::Answers::kAtOnce;
  EXPECT_EQ(over_later.send("SLUICE.CHECKALL 2 login a 1 login b 1\r\nPING\r\n"),
            "-ERR these keys are far apart\r\n+PONG\r\n");
  take_away(*later);
  EXPECT_EQ(over_later.send("SLUICE.CHECKALL 2 login a 1 login b 1\r\nPING\r\n"),
            "-UNAVAILABLE the store is away\r\n+PONG\r\n");
}

// A permit that this process granted in the store's place is released in this process.
TEST_F(LimitCommandsTest, APermitSaysWhoGaveIt) {
  for (const Source giver : {Source::kStore, Source::kFull, Source::kLocal, Source::kPolicy}) {
    PermitId permit = 0;
    Source read = Source::kUnavailable;
    ASSERT_TRUE(read_permit(permit_text(0xAB, giver), permit, read));
    EXPECT_EQ(permit, 0xABU);
    EXPECT_EQ(read, giver);
  }
}

}  // namespace
}  // namespace sluice::resp

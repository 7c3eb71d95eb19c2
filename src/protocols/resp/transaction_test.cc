#include "protocols/resp/transaction.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "protocols/resp/handler.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::Each;
using testing::HasSubstr;
using testing::Le;
using testing::StartsWith;

const std::string kThrottleSent = "CL.THROTTLE user 15 30 60\r\n";
const std::string kQueued = "+QUEUED\r\n";
const std::string kAborted = "-EXECABORT Transaction discarded because of previous errors.\r\n";

using TransactionTest = CommandsTest<still_store>;

TEST_F(TransactionTest, AnswersAPipelineWithATransactionInIt) {
  EXPECT_EQ(send(kThrottleSent + "MULTI\r\n" + kThrottleSent + "EXEC\r\n" + kThrottleSent +
                 "MULTI\r\nEXEC\r\n"),
            integers({0, 16, 15, -1, 2}) + "+OK\r\n" + kQueued + "*1\r\n" +
                integers({0, 16, 14, -1, 4}) + integers({0, 16, 13, -1, 6}) + "+OK\r\n*0\r\n");
}

TEST_F(TransactionTest, ChargesNothingThatIsNotExecuted) {
  for (const std::string end : {"DISCARD\r\n", "RESET\r\n", "NOSUCH\r\nEXEC\r\n",
                                "CL.THROTTLE user\r\nEXEC\r\n", "QUIT\r\n", "*1\r\nx\r\n"}) {
    TestConnection(thread).send("MULTI\r\n" + kThrottleSent + end);
    EXPECT_EQ(store->batches.size(), 0U) << end;
  }
}

TEST_F(TransactionTest, AnExecWithArgumentsEndsIt) {
  EXPECT_EQ(send("MULTI\r\nEXEC now\r\nPING\r\n"),
            "+OK\r\n-ERR wrong number of arguments for 'exec' command\r\n+PONG\r\n");
}

TEST_F(TransactionTest, QueuesAtMostAThousandCommands) {
  std::string many = "MULTI\r\n";
  for (int i = 0; i < 1'000; ++i) many += "CL.THROTTLE user 999 1 3600\r\n";
  send(many);
  const std::string replies = send("EXEC\r\n");
  EXPECT_THAT(replies, StartsWith("*1000\r\n" + integers({0, 1'000, 999, -1, 3'600})));
  EXPECT_TRUE(replies.ends_with(integers({0, 1'000, 0, -1, 3'600'000})));
  send(many);
  EXPECT_EQ(send("PING\r\n"),
            "-ERR a transaction has at most 1000 commands, together at most 131072 bytes\r\n");
  EXPECT_EQ(send("PING\r\n"), kQueued);
  EXPECT_EQ(send("EXEC\r\n"), kAborted);
}

TEST_F(TransactionTest, QueuesABoundedNumberOfBytes) {
  const std::string large = array({"ECHO", std::string(65'000, 'x')});
  send("MULTI\r\n" + large);
  EXPECT_EQ(send(large), kQueued);
  EXPECT_GE(connection.held_bytes(), 2 * large.size());
  EXPECT_THAT(send(large), HasSubstr("together at most 131072 bytes"));
  EXPECT_EQ(send("EXEC\r\n"), kAborted);
  EXPECT_LE(connection.held_bytes(), 100U);
}

TEST_F(TransactionTest, RunsNoFurtherCommandOnceItsRepliesAreLong) {
  constexpr std::size_t kMost = Transaction::kMaxReplyBytes;
  const std::size_t one = send("COMMAND DOCS\r\n").size();
  const std::size_t count = kMost / one + 2;
  std::string commands = "MULTI\r\n";
  for (std::size_t i = 0; i < count; ++i) commands += "COMMAND DOCS\r\n";
  send(commands + kThrottleSent);
  const std::string replies = send("EXEC\r\n");
  EXPECT_THAT(replies, StartsWith("*" + std::to_string(count + 1) + "\r\n*"));
  EXPECT_TRUE(
      replies.ends_with("-ERR not run: the replies of the transaction have more than "
                        "1048576 bytes\r\n"));
  EXPECT_GT(replies.size(), kMost);
  EXPECT_LT(replies.size(), kMost + one + 300);
  EXPECT_EQ(store->batches.size(), 0U);
  EXPECT_LE(connection.held_bytes(), 100U);
  EXPECT_EQ(send(kThrottleSent), integers({0, 16, 15, -1, 2}));
}

// If the store answers later, the commands are run batch by batch.
TEST_F(TransactionTest, AnswersWhenTheStoreHas) {
  const auto later = later_store();
  TestPeer peer(thread_over(later));
  std::string commands = "MULTI\r\n";
  std::string queued = "+OK\r\n";
  std::string replies = "*100\r\n";
  for (int i = 1; i <= 100; ++i) {
    commands += "CL.THROTTLE user 299 1 1\r\n";
    queued += kQueued;
    replies += integers({0, 300, 300 - i, -1, i});
  }
  peer.send(commands + "EXEC\r\nCL.THROTTLE user 299 1 1\r\nPING\r\n");
  EXPECT_EQ(peer.take_output(), queued);
  while (later->pending() != 0) {
    ASSERT_TRUE(later->answer());
    peer.go_on();
    EXPECT_TRUE(peer.output.empty() || peer.output.starts_with(replies)) << "whole, or not yet";
  }
  EXPECT_EQ(peer.output, replies + integers({0, 300, 199, -1, 101}) + "+PONG\r\n");
  EXPECT_THAT(later->batches, Each(Le(DecisionBatch::kMaxRequests)));
  EXPECT_EQ(later->batches.size(), 3U);
}

}  // namespace
}  // namespace sluice::resp

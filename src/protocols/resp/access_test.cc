#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocols/resp/words.h"
#include "sluice/store.h"
#include "testing/resp_connection.h"
#include "testing/served_store.h"
#include "testing/users.h"

namespace sluice::resp {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr std::string_view kNoAuthReply = "-NOAUTH Authentication required.\r\n";
constexpr std::string_view kWrongReply =
    "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

class AccessTest : public testing::Test {
 protected:
  const std::shared_ptr<ThreadState> thread_ = thread_over(open_store("memory:"), test_users());
  TestConnection connection_{thread_};
};

TEST_F(AccessTest, AsksEveryClientToLogIn) {
  for (const std::string command :
       {"PING", "CL.THROTTLE k 15 30 60", "SLUICE.CHECK login k", "SLUICE.LIMITS", "INFO", "MULTI",
        "COMMAND", "CLIENT ID", "CONFIG GET save", "DEL k", "TIME", "EXEC"}) {
    EXPECT_EQ(connection_.send(command + "\r\n"), kNoAuthReply) << command;
  }
  EXPECT_THAT(connection_.send("HELLO 3\r\n"), StartsWith("-NOAUTH HELLO must be called"));
  EXPECT_EQ(connection_.send("NONSENSE\r\n").substr(0, 5), "-ERR ");
  EXPECT_EQ(connection_.send("QUIT\r\n"), "+OK\r\n");
}

TEST_F(AccessTest, KnowsAUserByNameAndToken) {
  EXPECT_EQ(connection_.send("AUTH gateway wrong\r\nPING\r\n"),
            std::string(kWrongReply) + std::string(kNoAuthReply));
  EXPECT_EQ(connection_.send("AUTH nobody secret\r\n"), kWrongReply);
  EXPECT_EQ(connection_.send("AUTH gateway secret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
  // A wrong token does not change who the client is, as in Redis.
  EXPECT_EQ(connection_.send("AUTH gateway wrong\r\nPING\r\n"),
            std::string(kWrongReply) + "+PONG\r\n");
}

TEST_F(AccessTest, KnowsAUserByHello) {
  // As in Redis, a HELLO that the server refuses logs no client in.
  for (const std::string option : {"SETNAME 'a b'", "NOSUCH"}) {
    EXPECT_THAT(connection_.send("HELLO 3 AUTH gateway secret " + option + "\r\nPING\r\n"),
                AllOf(StartsWith("-ERR "), EndsWith(kNoAuthReply)));
  }
  EXPECT_EQ(connection_.send("HELLO 3 AUTH gateway wrong\r\n"), kWrongReply);
  EXPECT_THAT(connection_.send("HELLO 3 AUTH gateway secret SETNAME me\r\n"), StartsWith("%7\r\n"));
  EXPECT_EQ(connection_.send("CLIENT GETNAME\r\n"), "$2\r\nme\r\n");
}

TEST_F(AccessTest, MustLogInInTime) {
  EXPECT_TRUE(connection_.ends_for_login());
  connection_.send("AUTH gateway wrong\r\nPING\r\n");
  EXPECT_TRUE(connection_.ends_for_login());
  connection_.send("AUTH gateway secret\r\n");
  EXPECT_FALSE(connection_.ends_for_login());
  connection_.send("RESET\r\n");
  EXPECT_TRUE(connection_.ends_for_login());
  connection_.send("AUTH gateway secret\r\n");
  TestConnection certified(thread_, 8, {.peer = "192.0.2.1", .certificate = "CN=gateway"});
  EXPECT_FALSE(certified.ends_for_login());
  TestConnection without_users(thread_over(open_store("memory:")));
  EXPECT_FALSE(without_users.ends_for_login());
  // Its user is removed, and it sends nothing.
  thread_->server->access().users().replace(
      std::make_shared<const Access::Users>(Access::Users{test_users()[1]}));
  EXPECT_TRUE(connection_.ends_for_login());
}

TEST_F(AccessTest, AsksAgainOnceTheUserIsRemoved) {
  EXPECT_EQ(connection_.send("AUTH gateway secret\r\nPING\r\n"), "+OK\r\n+PONG\r\n");
  auto& current = thread_->server->access().users();
  current.replace(std::make_shared<const Access::Users>(test_users()));
  EXPECT_EQ(connection_.send("PING\r\n"), "+PONG\r\n");
  std::vector<User> changed = test_users();
  changed[0].token_sha256 = token_sha256("rotated");
  current.replace(std::make_shared<const Access::Users>(changed));
  EXPECT_EQ(connection_.send("PING\r\nAUTH gateway rotated\r\nPING\r\n"),
            std::string(kNoAuthReply) + "+OK\r\n+PONG\r\n");
  EXPECT_EQ(connection_.send("MULTI\r\nPING\r\n"), "+OK\r\n+QUEUED\r\n");
  current.replace(std::make_shared<const Access::Users>(test_users()));
  EXPECT_EQ(connection_.send("EXEC\r\nAUTH gateway secret\r\nPING\r\n"),
            std::string(kNoAuthReply) + "+OK\r\n+PONG\r\n");
}

// Its user is removed while the store decides the first of the keys.
TEST_F(AccessTest, ACommandThatHasBegunIsCarriedOutToItsEnd) {
  const auto store = later_store();
  const auto thread = thread_over(store, test_users());
  TestPeer peer(thread);
  std::string input = "AUTH operator other\r\nDEL";
  for (int i = 0; i < 60; ++i) input += " k" + std::to_string(i);
  peer.send(input + "\r\nPING\r\n");
  thread->server->access().users().replace(
      std::make_shared<const Access::Users>(Access::Users{test_users()[0]}));
  while (store->pending() != 0) {
    ASSERT_TRUE(store->answer());
    peer.go_on();
  }
  EXPECT_EQ(peer.output, "+OK\r\n:0\r\n" + std::string(kNoAuthReply));
  EXPECT_EQ(peer.progress.next, StreamHandler::Next::kNeedMore);
}

TEST_F(AccessTest, ForgetsTheUserOnReset) {
  EXPECT_EQ(connection_.send("AUTH gateway secret\r\nRESET\r\nPING\r\n"),
            "+OK\r\n+RESET\r\n" + std::string(kNoAuthReply));
  EXPECT_EQ(connection_.send("AUTH gateway secret\r\nCL.THROTTLE a 1 1 1\r\nRESET\r\n"
                             "CL.THROTTLE b 1 1 1\r\n"),
            "+OK\r\n" + integers({0, 2, 1, -1, 1}) + "+RESET\r\n" + std::string(kNoAuthReply));
}

TEST_F(AccessTest, ListsTheUserOfEachConnection) {
  connection_.send("AUTH operator other\r\n");
  TestConnection by_token(thread_, 8);
  by_token.send("AUTH secret\r\n");
  TestConnection certified(thread_, 9, {.peer = "192.0.2.1", .certificate = "CN=gateway"});
  TestConnection unknown(thread_, 10);
  const auto users_listed = [&] {
    std::string users;
    std::string list = connection_.send("CLIENT LIST\r\n");
    for (std::size_t at = 0; (at = list.find(" user=", at)) != std::string::npos; ++at) {
      users += list.substr(at + 6, list.find(' ', at + 6) - at - 6) + ";";
    }
    return users;
  };
  EXPECT_EQ(users_listed(), "operator;gateway;CN=gateway;;");
  by_token.send("RESET\r\n");
  EXPECT_EQ(users_listed(), "operator;;CN=gateway;;");
  by_token.send("HELLO 3 AUTH gateway secret\r\n");
  EXPECT_EQ(users_listed(), "operator;gateway;CN=gateway;;");
  // A removed user has no rights from the next check of the connection on.
  std::vector<User> left{test_users()[1]};
  left.push_back({"", "", "CN=other gate", kCheckRole});
  thread_->server->access().users().replace(std::make_shared<const Access::Users>(left));
  by_token.ends_for_login();
  certified.ends_for_login();
  EXPECT_EQ(users_listed(), "operator;;;;");
  TestConnection blank(thread_, 11, {.peer = "192.0.2.1", .certificate = "CN=other gate"});
  EXPECT_EQ(users_listed(), "operator;;;;CN=other_gate;");
}

TEST_F(AccessTest, AdminCommandsNeedTheRole) {
  const std::vector<std::string> commands{"SLUICE.REFUND login k 1",
                                          "SLUICE.CHARGE login k 1",
                                          "SLUICE.BLOCK login k 10",
                                          "SLUICE.RESET login k",
                                          "SLUICE.LIMITS",
                                          "DEL k",
                                          "CL.THROTTLE k 15 30 60 -1",
                                          "RL.THROTTLE k 15 30 60 -1"};
  connection_.send("AUTH gateway secret\r\n");
  for (const std::string& command : commands) {
    const std::string name = in_small_letters(command.substr(0, command.find(' ')));
    EXPECT_EQ(connection_.send(command + "\r\n"),
              "-NOPERM this user has no permissions to run the '" + name + "' command\r\n");
  }
  connection_.send("AUTH operator other\r\n");
  for (const std::string& command : commands) {
    EXPECT_THAT(connection_.send(command + "\r\n"), Not(HasSubstr("NOPERM"))) << command;
  }
}

TEST_F(AccessTest, OnlyAnAdminLearnsOfOtherClients) {
  connection_.send("AUTH gateway secret\r\n");
  EXPECT_THAT(connection_.send("CLIENT LIST\r\n"), HasSubstr("NOPERM"));
  EXPECT_THAT(connection_.send("CLIENT INFO\r\n"), HasSubstr("user=gateway"));
}

TEST_F(AccessTest, DecisionsNeedTheRoleCheck) {
  connection_.send("AUTH prometheus third\r\n");
  EXPECT_EQ(connection_.send("SLUICE.CHECK login k\r\n"),
            "-NOPERM this user has no permissions to run the 'sluice.check' command\r\n");
  EXPECT_EQ(connection_.send("PING\r\n"), "+PONG\r\n");
  EXPECT_THAT(connection_.send("INFO server\r\n"), HasSubstr("sluice_version"));
}

TEST_F(AccessTest, ATransactionIsRefusedWithItsCommand) {
  connection_.send("AUTH gateway secret\r\n");
  const std::string replies =
      connection_.send("MULTI\r\nCL.THROTTLE k 15 30 60\r\nDEL k\r\nEXEC\r\n");
  EXPECT_THAT(replies, HasSubstr("+QUEUED\r\n-NOPERM "));
  EXPECT_THAT(replies, HasSubstr("-EXECABORT "));
}

TEST_F(AccessTest, ClosesAPeerWithTooManyWrongTokens) {
  for (int i = 0; i < 10; ++i) EXPECT_EQ(connection_.send("AUTH gateway x\r\n"), kWrongReply);
  EXPECT_EQ(connection_.send("AUTH gateway x\r\nPING\r\n"),
            "-WRONGPASS too many wrong tokens from this address.\r\n");
  EXPECT_EQ(connection_.progress.next, StreamHandler::Next::kClose);
  // The reply to an EXEC is whole.
  TestConnection other(thread_);
  const std::string throttle = "CL.THROTTLE k 15 30 60\r\n";
  other.send("AUTH gateway secret\r\nMULTI\r\nPING\r\nAUTH x\r\nPING\r\n" + throttle);
  const std::string not_run = "-ERR not run: the connection is closed\r\n";
  EXPECT_EQ(
      other.send("EXEC\r\nPING\r\n"),
      "*4\r\n+PONG\r\n-WRONGPASS too many wrong tokens from this address.\r\n" + not_run + not_run);
  EXPECT_EQ(other.progress.next, StreamHandler::Next::kClose);
  TestConnection last(thread_);
  EXPECT_EQ(last.send("AUTH gateway secret\r\n" + throttle),
            "+OK\r\n" + integers({0, 16, 15, -1, 2}));
}

}  // namespace
}  // namespace sluice::resp

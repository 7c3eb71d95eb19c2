#include "protocols/resp/handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/resp_connection.h"
#include "testing/served_store.h"

namespace sluice::resp {
namespace {

using testing::ElementsAre;
using testing::StartsWith;
using Next = StreamHandler::Next;

using HandlerTest = CommandsTest<still_store>;

TEST_F(HandlerTest, TellsWhetherAPartOfACommandHasCome) {
  for (const std::string_view part :
       {"P", "PING\r\nPIN", "*1\r\n", "*1\r\n$4\r\nPING\r", "MULTI\r\nPING\r\nPI"}) {
    TestConnection other(thread);
    other.send(part);
    EXPECT_TRUE(other.progress.has_part) << part;
  }
  for (const std::string_view whole : {"", "\r\n", "PING\r\n", "MULTI\r\nPING\r\n"}) {
    TestConnection other(thread);
    other.send(whole);
    EXPECT_FALSE(other.progress.has_part) << whole;
  }
  EXPECT_EQ(connection.end(StreamHandler::EndReason::kLate),
            "-ERR Protocol error: the rest of the command has not come in time\r\n");
  EXPECT_EQ(connection.end(StreamHandler::EndReason::kNoMemory),
            "-ERR the connections of the server hold as much as they may (max_client_bytes)\r\n");
}

TEST_F(HandlerTest, RoundsWaitsUp) {
  send("SLUICE.CHECK login bob 5\r\n");
  *store->clock += 500'000;
  EXPECT_EQ(send("sluice.check login bob\r\n"), integers({0, 5, 0, 200, 1000, 0}));
}

TEST_F(HandlerTest, NamesWhatIsWrongWithACheck) {
  EXPECT_EQ(send("SLUICE.CHECK signup bob\r\n"), "-ERR no limit is named 'signup'\r\n");
  EXPECT_THAT(send("SLUICE.PEEK 'token_bucket 5/1x' bob\r\n"),
              StartsWith("-ERR limit 'token_bucket 5/1x': "));
  EXPECT_EQ(send("SLUICE.CHECK login bob x\r\n"),
            "-ERR cost is not an integer or out of range\r\n");
  EXPECT_EQ(send("SLUICE.CHECK login bob -1\r\n"), "-ERR cost must be at least 0\r\n");
  // Without its quotes, an expression is cut.
  EXPECT_EQ(send("SLUICE.CHECK sliding_log 5/10m bob\r\n"),
            "-ERR limit 'sliding_log': a count is missing here (100/1s), at character 12\r\n");
  EXPECT_EQ(send("SLUICE.CHECK login bob 1 1\r\n"),
            "-ERR wrong number of arguments for 'sluice.check' command\r\n");
  EXPECT_EQ(send("SLUICE.PEEK login\r\n"),
            "-ERR wrong number of arguments for 'sluice.peek' command\r\n");
  store->refuses_spaces = true;
  EXPECT_EQ(send("SLUICE.PEEK 'token_bucket 5/1h' bob\r\n"), "-ERR no room for another space\r\n");
}

TEST_F(HandlerTest, AnswersInOrderWithOneBatch) {
  const std::string throttle = array({"CL.THROTTLE", "user", "15", "30", "60"});
  EXPECT_EQ(send(throttle + throttle + array({"PING"}) + array({"CL.THROTTLE", "user"}) + throttle +
                 array({"SLUICE.CHECK", "login", "bob"})),
            integers({0, 16, 15, -1, 2}) + integers({0, 16, 14, -1, 4}) + "+PONG\r\n" +
                "-ERR wrong number of arguments for 'cl.throttle' command\r\n" +
                integers({0, 16, 13, -1, 6}) + integers({1, 5, 4, 0, 200, 0}));
  EXPECT_THAT(store->batches, ElementsAre(4));
}

// Other connections of the thread wait no longer for a client that sends ever-new limits. Ever-new
// numbers of one space do not take longer than others.
TEST_F(HandlerTest, ALimitForWhichASpaceIsOpenedCountsAs16Commands) {
  struct Row {
    std::string begin;
    std::string end;
    std::size_t opens;  // How many spaces are opened for each.
  };
  for (const Row& row :
       {Row{"SLUICE.CHECK 'token_bucket ", "/1h' key\r\n", 1},
        Row{"CL.THROTTLE key ", " 1 60\r\n", 0}, Row{"INCREX key UBOUND ", " EX 60 ENX\r\n", 0}}) {
    std::string input;
    for (int i = 1; i <= 8; ++i) input += row.begin + std::to_string(i) + row.end;
    std::string output;
    Handler handler(thread, 8, {});
    EXPECT_EQ(handler.on_data(input, output).consumed, input.size() / (1 + row.opens)) << input;
    send(input);  // Now it knows them.
    EXPECT_EQ(handler.on_data(input, output).consumed, input.size()) << input;
  }
}

// Fewer commands at once would be more round trips.
TEST_F(HandlerTest, ALimitOfAStoreElsewhereCountsAsOneCommand) {
  store->answers = ScriptedStore::Answers::kWhenTold;
  Handler handler(thread_over(store), 8, {.wake = [] {}});
  std::string input;
  for (int i = 1; i <= 8; ++i) {
    input += "SLUICE.CHECK 'token_bucket " + std::to_string(i) + "/1h' key\r\n";
  }
  std::string output;
  EXPECT_EQ(handler.on_data(input, output).consumed, input.size());
}

// What is sent after a report waits until that has been sent.
TEST_F(HandlerTest, AReportIsTheLastCommandOfItsBatch) {
  for (const std::string_view report : {"SLUICE.LIMITS\r\n", "SLUICE.TOP login\r\n", "INFO\r\n",
                                        "DBSIZE\r\n", "CLIENT LIST\r\n", "COMMAND\r\n"}) {
    Handler handler(thread, 8, {});
    std::string output;
    const auto progress = handler.on_data(std::string(report) + "PING\r\n", output);
    EXPECT_EQ(progress.consumed, report.size()) << report;
    EXPECT_EQ(progress.next, Next::kMore) << report;
  }
}

TEST_F(HandlerTest, ClosesOnQuitAndOnHttp) {
  EXPECT_EQ(send("QUIT\r\nPING\r\n"), "+OK\r\n");
  EXPECT_EQ(connection.progress.next, Next::kClose);
  for (const auto* line : {"POST / HTTP/1.1\r\n", "Host: localhost\r\n"}) {
    Handler other(thread, 8, {});
    std::string output;
    EXPECT_EQ(other.on_data(line, output).next, Next::kClose);
    EXPECT_EQ(output, "");
  }
}

TEST_F(HandlerTest, SaysWhichCommandWasProbablyMeant) {
  EXPECT_EQ(send("sluice.chek login\r\n"),
            "-ERR unknown command 'sluice.chek', with args beginning with: 'login' "
            "(did you mean 'SLUICE.CHECK'?)\r\n");
}

TEST_F(HandlerTest, AnswersHelloInEitherProtocol) {
  const std::string pairs =
      "$6\r\nserver\r\n$6\r\nsluice\r\n$7\r\nversion\r\n$5\r\n0.1.0\r\n$5\r\nproto\r\n:";
  const std::string rest =
      "\r\n$2\r\nid\r\n:7\r\n$4\r\nmode\r\n$10\r\nstandalone\r\n$4\r\nrole\r\n$6\r\nmaster\r\n"
      "$7\r\nmodules\r\n*0\r\n";
  EXPECT_EQ(send("HELLO\r\n"), "*14\r\n" + pairs + "2" + rest);
  EXPECT_EQ(send("HELLO 3 AUTH default any SETNAME bob\r\n"), "%7\r\n" + pairs + "3" + rest);
  EXPECT_EQ(send("CLIENT GETNAME\r\n"), "$3\r\nbob\r\n");
  EXPECT_EQ(send("CLIENT SETNAME ''\r\nCLIENT GETNAME\r\n"), "+OK\r\n_\r\n");
  EXPECT_EQ(send("RESET\r\nCLIENT GETNAME\r\n"), "+RESET\r\n$-1\r\n");
}

TEST_F(HandlerTest, ABadHelloChangesNothing) {
  send("CLIENT SETNAME before\r\n");
  EXPECT_EQ(send("HELLO 3 SETNAME foo BAD\r\n"), "-ERR Syntax error in HELLO option 'BAD'\r\n");
  EXPECT_EQ(send("CLIENT GETNAME\r\n"), "$6\r\nbefore\r\n");
  EXPECT_EQ(send("CLIENT SETNAME ''\r\nCLIENT GETNAME\r\n"), "+OK\r\n$-1\r\n");
}

TEST_F(HandlerTest, BoundsTheLengthOfAName) {
  const std::string most(kMaxNameBytes, 'x');
  const std::string refusal = "-ERR Client names have at most 256 bytes, this one has 257.\r\n";
  EXPECT_EQ(send("CLIENT SETNAME " + most + "x\r\n"), refusal);
  EXPECT_EQ(send("HELLO 3 SETNAME " + most + "x\r\n"), refusal);
  EXPECT_EQ(send("CLIENT GETNAME\r\n"), "$-1\r\n");
  EXPECT_EQ(send("CLIENT SETNAME " + most + "\r\n"), "+OK\r\n");
  EXPECT_EQ(send("CLIENT GETNAME\r\n"), "$256\r\n" + most + "\r\n");
}

// As where it cannot start a thread.
TEST_F(HandlerTest, RepliesWhereTheSystemFails) {
  store->breaks = broken_system();
  EXPECT_EQ(send("SLUICE.CHECK login bob\r\nSLUICE.CHECK 'token_bucket 7/1s' bob\r\nPING\r\n"),
            integers({1, 5, 4, 0, 200, 0}) + "-ERR there is none: Input/output error\r\n+PONG\r\n");
  EXPECT_EQ(connection.progress.next, Next::kNeedMore);
}

TEST_F(HandlerTest, AnExceptionLeavesNothingToTheNextPeer) {
  send("CL.THROTTLE user 15 30 60\r\n");
  store->breaks = std::make_exception_ptr(std::runtime_error("broken"));
  std::string output;
  Handler handler(thread, 9, {});
  EXPECT_THROW(handler.on_data(array({"CL.THROTTLE", "user", "15", "30", "60"}) +
                                   array({"SLUICE.CHECK", "token_bucket 7/1s", "bob"}),
                               output),
               std::runtime_error);
  store->breaks = nullptr;
  Handler other(thread, 8, {});
  output.clear();
  other.on_data("PING\r\n", output);
  EXPECT_EQ(output, "+PONG\r\n");
}

TEST_F(HandlerTest, RefusesWrongFactsAboutALibrary) {
  EXPECT_EQ(send("CLIENT SETINFO lib-ver 'a b'\r\n"),
            "-ERR lib-ver cannot contain spaces, newlines or special characters.\r\n");
  EXPECT_EQ(send("CLIENT SETINFO FOO x\r\n"), "-ERR Unrecognized option 'FOO'\r\n");
}

// Bytes that equal those of the command before are still read from this command.
TEST_F(HandlerTest, KeepsTheKeysOfCommandsThatDifferInTheirLimitAlone) {
  const auto check = [](const std::string& limit, const std::string& key) {
    return array({"SLUICE.CHECK", limit, key});
  };
  EXPECT_EQ(send(check("login", "bob") + check("token_bucket 9/1s", "bob") + check("login", "eve")),
            integers({1, 5, 4, 0, 200, 0}) + integers({1, 9, 8, 0, 112, 0}) +
                integers({1, 5, 4, 0, 200, 0}));
  EXPECT_EQ(send(check("token_bucket 9/1s", "bob")), integers({1, 9, 7, 0, 223, 0}));
}

// Equal bytes except the key mean the same numbers only if no other command came between.
TEST_F(HandlerTest, RepeatsOnlyTheCommandBefore) {
  const std::string wide = array({"CL.THROTTLE", "a", "9", "1", "60"});
  const std::string narrow = array({"CL.THROTTLE", "b", "1", "1", "60"});
  const std::string again = array({"CL.THROTTLE", "c", "9", "1", "60"});
  const std::string of_ten = integers({0, 10, 9, -1, 60});
  const std::string of_two = integers({0, 2, 1, -1, 60});
  EXPECT_EQ(send(wide + again), of_ten + of_ten);
  EXPECT_EQ(send("RESET\r\n"), "+RESET\r\n");
  EXPECT_EQ(send(array({"CL.THROTTLE", "d", "9", "1", "60"}) + narrow +
                 array({"CL.THROTTLE", "e", "9", "1", "60"})),
            of_ten + of_two + of_ten);
  EXPECT_EQ(send(array({"CL.THROTTLE", "f", "9", "1", "60"}) + "CL.THROTTLE g 1 1 60\r\n" +
                 array({"CL.THROTTLE", "h", "9", "1", "60"})),
            of_ten + of_two + of_ten);
  const std::string wrong = array({"CL.THROTTLE", "i", "9", "x", "60"});
  const std::string error = send(wrong);
  EXPECT_THAT(error, StartsWith("-ERR count"));
  EXPECT_EQ(send(array({"CL.THROTTLE", "j", "9", "1", "60"}) + wrong + wrong),
            of_ten + error + error);
}

}  // namespace
}  // namespace sluice::resp

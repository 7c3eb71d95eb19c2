// What servers before 7.0 say in other words.

#include "stores/redis/server_error.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "stores/redis/handshake.h"
#include "stores/redis/limited_test.h"
#include "stores/redis/script_call.h"

namespace sluice::redis {
namespace {

using Kind = ServerError::Kind;

struct Said {
  std::string by_server;
  std::string understood;
  Kind kind = Kind::kOther;
};

std::string bulk(const std::string& text) {
  return '$' + std::to_string(text.size()) + "\r\n" + text + "\r\n";
}

constexpr std::uint32_t kNumber = 5;

// One unit that fails, as the script says it on this server, but in words of another.
class FailedUnit {
 public:
  FailedUnit() : client_(server_.client()) {
    client_.send(script_load_command());
    client_.read();
    server_.command({"LPUSH", "sluice:test:{k}", "x"});
    call_.add(request_, decision_);
    std::string command;
    call_.write(kStoreTime, kNumber, command);
    client_.send(command);
    reply_ = client_.read();
  }

  const servers::Reply& reply() const { return reply_; }
  std::string error(const std::string& words) {
    EXPECT_TRUE(call_.read("*2\r\n" + bulk(reply_.elements.at(0).text) + bulk("-" + words)));
    return std::string(call_.error(0));
  }

 private:
  const RedisServer server_;
  servers::RespClient client_;
  const Limit limit_{"fixed_window 5/1h", "test"};
  RedisSpace space_{"sluice", limit_.definition()};
  const Request request_{.limit = &limit_.definition(), .space = &space_, .key = "k"};
  Decision decision_;
  ScriptCall call_;
  servers::Reply reply_;
};

// What a command says itself comes as it is. What a server before 7.0 says before it runs one comes
// with the place in the script, a dash and the line's end.
TEST(ServerError, OfAScriptsCommandIsReadAsServersBefore7SayIt) {
  const auto at = [](std::string_view words) { return "@user_script: 181: " + std::string(words); };
  const auto before = [&](const std::string& words) { return at("-" + words + "\r\n"); };
  const std::string memory = "OOM command not allowed when used memory > 'maxmemory'.";
  const std::string replica = "READONLY You can't write against a read only replica.";
  const std::string disk =
      "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist "
      "on disk. Commands that may modify the data set are disabled, because this instance is "
      "configured to report errors during writes if RDB snapshotting fails "
      "(stop-writes-on-bgsave-error option). Please check the Redis logs for details about the RDB "
      "error.";
  const std::string file = "MISCONF Errors writing to the AOF file: No space left on device";
  const std::string type = "WRONGTYPE Operation against a key holding the wrong kind of value";
  const std::string user = at("The user executing the script can't run this command or subcommand");
  for (const Said& said : {
           Said{type, type},
           Said{before(memory), memory},
           Said{before(replica), replica, Kind::kReadOnly},
           Said{before(disk), disk},
           Said{before(file), file},
           Said{user, user},
       }) {
    FailedUnit failed;
    ASSERT_EQ(failed.reply().elements.at(1).text, "-" + type);
    const std::string error = failed.error(said.by_server);
    EXPECT_EQ(error, said.understood);
    EXPECT_EQ(read_server_error(error).kind, said.kind) << error;
  }
}

// Of those with a kind of their own nothing was carried out, and asking again may help.
TEST(ServerError, OfACallIsReadAsServersBefore7SayIt) {
  const std::string script =
      "ERR Error running script (call to f_9a0364b9e99bb480dd25e1f0284c8555f6c7f5a5): "
      "@user_script:102: ";
  for (const Said& said : {
           Said{"BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN "
                "NOSAVE.",
                "", Kind::kBusy},
           Said{"NOSCRIPT No matching script. Please use EVAL.", "", Kind::kNoScript},
           Said{"LOADING Redis is loading the dataset in memory", "", Kind::kLoading},
           Said{"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
                "", Kind::kLoading},
           Said{"NOAUTH Authentication required.", "", Kind::kNoAuth},
           Said{"CLUSTERDOWN Hash slot not served", "", Kind::kClusterDown},
           Said{"TRYAGAIN Multiple keys request during rehashing of slot", "", Kind::kTryAgain},
           Said{"NOPERM this user has no permissions to run the 'evalsha' command or its "
                "subcommand",
                ""},
           Said{"NOPERM User keys has no permissions to run the 'evalsha' command", ""},
           Said{"NOPERM this user has no permissions to access one of the keys used as arguments",
                "", Kind::kNoPerm},
           Said{script + "WRONGTYPE Operation against a key holding the wrong kind of value", ""},
           Said{
               script + "@user_script: 102: -READONLY You can't write against a read only replica.",
               ""},
       }) {
    EXPECT_EQ(read_server_error(said.by_server).kind, said.kind) << said.by_server;
  }
}

// Newer servers say first what the script's command has met, and then where.
TEST(ServerError, OutOfAScriptIsNoneOfACall) {
  const std::string where =
      " script: 9a0364b9e99bb480dd25e1f0284c8555f6c7f5a5, on @user_script:102.";
  for (const std::string said : {"NOPERM No permissions to access a key",
                                 "READONLY You can't write against a read only "
                                 "replica."}) {
    EXPECT_NE(read_server_error(said).kind, Kind::kOther) << said;
    EXPECT_EQ(read_server_error(said + where).kind, Kind::kOther) << said;
  }
}

}  // namespace
}  // namespace sluice::redis

// What a server refuses, and what fails in the middle.

#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/temporary_folder.h"
#include "testing/error_of.h"
#include "testing/redis_limited.h"

namespace sluice::redis {
namespace {

// A failover may give the address of the server to another, and leave the first where it is. A
// caller who waits learns it, and one who does not.
TEST(RedisStore, AReplicaIsLeftWhereItsAddressLeadsToAnother) {
  for (const bool alone : {true, false}) {
    const RedisServer first;
    const RedisServer second;
    const servers::TemporaryFolder folder;
    const auto address = folder.path() / "redis.sock";
    std::filesystem::create_symlink(first.unix_path(), address);
    RedisOptions options{.servers = {{.unix_path = address}}, .deadline = 5s};
    Limited limited(options, "fixed_window 10/24h");
    const auto ask = [&] {
      if (alone) return sources(limited, {limited.request("k")}).front() == Source::kStore;
      return Crowd(limited, {"k"}).unanswered() == 0;
    };
    EXPECT_TRUE(ask());
    std::filesystem::remove(address);
    std::filesystem::create_symlink(second.unix_path(), address);
    EXPECT_EQ(limited.check("k").remaining, 8);
    first.command({"REPLICAOF", "127.0.0.1", std::to_string(servers::free_port())});
    EXPECT_FALSE(ask());
    servers::await("the other server to be asked", ask);
    EXPECT_EQ(limited.check("k").remaining, 8);
    EXPECT_FALSE(is_connected(first));
  }
}

// The first caller is told what the server has replied; then the connection is made anew, and shows
// the role.
TEST(RedisStore, AReplicaIsCalledSoToEachCaller) {
  const RedisServer server;
  Limited limited(options_for(server), "fixed_window 10/24h");
  limited.check("k");
  server.command({"LPUSH", "sluice:test:{list}", "x"});
  server.command({"REPLICAOF", "127.0.0.1", std::to_string(servers::free_port())});
  // What else fails does not hide it.
  sources(limited, {limited.request("list"), limited.request("k")});
  for (int i = 0; i < 100; ++i) {
    EXPECT_THAT(error_of([&] { limited.check("k"); }),
                testing::AnyOf(testing::HasSubstr(": READONLY "),
                               testing::HasSubstr(" is a replica, not the primary")));
  }
}

// A server that lets the script take and not delete: some of a batch is carried out, and none of it
// twice.
TEST(RedisStore, ABatchThatFailsInTheMiddleIsNotSentAgain) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "halved", "on", ">pass", "~*", "&*", "+@all", "-del"});
  RedisOptions options = options_for(server);
  options.user = "halved";
  options.password = "pass";
  Limited limited(options, "fixed_window 100/24h");
  limited.check("k", 1);
  Request reset = limited.request("k");
  reset.operation = Operation::kReset;
  EXPECT_EQ(sources(limited, {limited.request("k", 10), reset}).back(), Source::kUnavailable);
  EXPECT_EQ(limited.check("k", 0).remaining, 89);
}

// A call that names a key which the user may not touch is refused as a whole, before its script
// begins: each request in it is asked again alone, and those of others are answered.
TEST(RedisStore, AKeyThatTheUserMayNotTouchFailsAlone) {
  const RedisServer server;
  server.command({"ACL", "SETUSER", "part", "on", ">pass", "~sluice:test:{own*", "&*", "+@all"});
  RedisOptions options = options_for(server);
  options.user = "part";
  options.password = "pass";
  Limited limited(options, "fixed_window 2000/24h");
  EXPECT_EQ(limited.check("own").remaining, 1999);
  // By a caller who waits, by many who do not, and by one who asks for nothing else.
  const auto asked = sources(
      limited, {limited.request("own"), limited.request("strange"), limited.request("own2")});
  EXPECT_THAT(asked, testing::ElementsAre(Source::kStore, Source::kUnavailable, Source::kStore));
  std::vector<std::string> keys(200, "own");
  keys[100] = "strange";
  const Crowd crowd(limited, keys);
  EXPECT_EQ(crowd.admitted(), 199);
  EXPECT_EQ(crowd.unanswered(), 1);
  EXPECT_EQ(limited.check("own", 0).remaining, 1999 - 1 - 199);
  EXPECT_THAT(
      error_of([&] { limited.check("strange"); }),
      testing::AllOf(testing::HasSubstr("NOPERM"), testing::HasSubstr("'sluice:test:{strange}'")));
}

// Whatever is under way is answered, whichever moment it is.
TEST(RedisStore, ClosesAroundADeadline) {
  RedisServer server;
  server.pause();
  for (int round = 0; round < 100; ++round) {
    RedisOptions options = options_for(server);
    options.deadline = std::chrono::microseconds(100 * (round % 10));
    std::future<Answer> pending;
    {
      Limited limited(options, "fixed_window 5/24h");
      pending = limited.submit("k");
    }
    const Answer answer = pending.get();
    EXPECT_EQ(answer.decision.source, Source::kUnavailable);
    EXPECT_NE(answer.error, "");
  }
  server.resume();
}

}  // namespace
}  // namespace sluice::redis

#include "servers/redis_sentinel.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice::servers {
namespace {

TEST(RedisSentinel, NamesThePrimaryAndReplacesIt) {
  RedisSentinel fleet;
  EXPECT_EQ(fleet.named_primary(), fleet.first_primary().port());
  EXPECT_TRUE(fleet.url().ends_with("/mymaster")) << fleet.url();
  RespClient client = fleet.first_primary().client();
  EXPECT_EQ(client.ask({"SET", "k", "v"}).text, "OK");
  EXPECT_EQ(client.ask({"WAIT", "1", "5000"}).text, "1");
  EXPECT_EQ(fleet.first_replica().command({"SET", "k", "w"}).substr(0, 9), "-READONLY");

  fleet.first_primary().kill();
  fleet.await_primary(fleet.first_replica().port());
  EXPECT_EQ(fleet.first_replica().command({"GET", "k"}), "v");
}

TEST(RedisSentinel, FailsOverOnDemand) {
  RedisSentinel fleet;
  fleet.begin_failover();
  fleet.await_primary(fleet.first_replica().port());
  EXPECT_NE(fleet.first_primary().pid(), -1);
}

}  // namespace
}  // namespace sluice::servers

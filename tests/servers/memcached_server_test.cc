#include "servers/memcached_server.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace sluice::servers {
namespace {

TEST(MemcachedServer, AnswersAndLosesItsDataWhenItIsKilled) {
  MemcachedServer server({.arguments = {"-m", "16"}});
  EXPECT_EQ(server.command("ms k 3\r\nabc\r\n"), "HD\r\n");
  EXPECT_EQ(server.command("mg k v\r\n"), "VA 3\r\nabc\r\n");
  EXPECT_EQ(server.stat("curr_items"), "1");
  EXPECT_EQ(server.stat("nosuch"), "");
  server.kill();
  EXPECT_THROW(server.command("version\r\n"), std::runtime_error);
  server.restart();
  EXPECT_EQ(server.command("mg k v\r\n"), "EN\r\n");
  EXPECT_EQ(server.url(), "memcached://127.0.0.1:" + std::to_string(server.port()));
}

}  // namespace
}  // namespace sluice::servers

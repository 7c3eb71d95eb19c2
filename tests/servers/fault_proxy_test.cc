// What the tests that use a FaultProxy do not show of it.
#include "servers/fault_proxy.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "servers/await.h"
#include "servers/redis_server.h"
#include "servers/resp_client.h"

namespace sluice::servers {
namespace {

TEST(FaultProxy, RefusingKeepsExistingConnections) {
  const RedisServer server;
  FaultProxy proxy(server.port());
  RespClient client(proxy.port());
  proxy.refuse();
  EXPECT_THROW(RespClient{proxy.port()}, std::runtime_error);
  EXPECT_EQ(client.ask({"PING"}).text, "PONG");
  proxy.pass();
  EXPECT_EQ(RespClient(proxy.port()).ask({"PING"}).text, "PONG");
}

// As a server would read it.
TEST(FaultProxy, WhatArrivedBeforeAResetIsForwarded) {
  const RedisServer server;
  FaultProxy proxy(server.port());
  Peer peer = peer_at(proxy.port());
  await("its connection to the server", [&] { return proxy.accepted() == 1; });
  proxy.stall();
  peer.send(encode_command({"SET", "k", "v"}));
  peer.reset();
  proxy.pass();
  await("what was sent", [&] { return server.command({"EXISTS", "k"}) == "1"; });
}

TEST(FaultProxy, ALostServerClosesTheConnection) {
  RedisServer server;
  const FaultProxy proxy(server.port());
  RespClient client(proxy.port());
  server.kill();
  EXPECT_THROW(client.ask({"PING"}), std::runtime_error);
  EXPECT_THROW(RespClient(proxy.port()).ask({"PING"}), std::runtime_error);
  server.restart();
  EXPECT_EQ(RespClient(proxy.port()).ask({"PING"}).text, "PONG");
}

}  // namespace
}  // namespace sluice::servers

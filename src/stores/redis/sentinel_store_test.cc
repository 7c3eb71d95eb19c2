// The store under sentinels that do not agree.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "servers/await.h"
#include "servers/fault_proxy.h"
#include "stores/redis/limited_test.h"

namespace sluice::redis {
namespace {

servers::RedisOptions sentinel_of(std::uint16_t port) {
  return {.config = {"sentinel monitor it 127.0.0.1 " + std::to_string(port) + " 1"},
          .sentinel = true};
}

void cut_one_connection(const RedisServer& server) {
  const std::string clients = server.command({"CLIENT", "LIST", "TYPE", "NORMAL"});
  const std::size_t line = clients.rfind("id=", clients.find(" name=sluice "));
  const std::string id = clients.substr(line + 3, clients.find(' ', line) - line - 3);
  EXPECT_EQ(server.command({"CLIENT", "KILL", "ID", id}), "1");
}

// Its other connection serves: that one of two sentinels names another is not enough.
TEST(RedisStoreUnderSentinel, KeepsAPrimaryThatHasLostOneOfItsConnections) {
  const RedisServer primary;
  const RedisServer other;
  servers::FaultProxy to_primary(primary.port());
  const RedisServer sentinel(sentinel_of(to_primary.port()));
  const RedisServer liar(sentinel_of(other.port()));
  servers::FaultProxy to_liar(liar.port());
  to_liar.refuse();
  RedisOptions options{.topology = Topology::kSentinel,
                       .servers = {{.host = "127.0.0.1", .port = sentinel.port()},
                                   {.host = "127.0.0.1", .port = to_liar.port()}},
                       .primary_name = "it",
                       .deadline = 5s,
                       .connections = 2};
  Limited limited(options, "fixed_window 1000/24h");
  std::vector<std::string> keys;
  for (int i = 0; i < 20; ++i) keys.push_back("key" + std::to_string(i));
  std::vector<Request> requests;
  for (const auto& key : keys) requests.push_back(limited.request(key));
  EXPECT_THAT(sources(limited, requests), testing::Each(Source::kStore));

  to_primary.refuse();
  cut_one_connection(primary);
  servers::await("the keys of one connection to be unanswered", [&] {
    const auto answered = sources(limited, requests);
    return std::ranges::count(answered, Source::kUnanswered) > 0;
  });
  std::atomic<int> lies = 0;
  to_liar.pass();
  to_liar.edit_replies([&](const std::string& replies) {
    if (replies.find(std::to_string(other.port())) != std::string::npos) ++lies;
  });
  servers::await("three lies", [&] { return lies >= 3; });
  EXPECT_THAT(sources(limited, requests), testing::Contains(Source::kStore));
  EXPECT_FALSE(is_connected(other));
}

}  // namespace
}  // namespace sluice::redis

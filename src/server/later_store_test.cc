#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "server/protocols.h"
#include "testing/line_server.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

constexpr int kCommands = 3'000;

std::string pipeline(const std::string& key) {
  std::string commands;
  for (int i = 0; i < kCommands; ++i) {
    commands += "CL.THROTTLE " + key + " 1000000 1 1\r\n";
    if (i % 7 == 0) commands += "ECHO " + key + std::to_string(i) + "\r\n";
  }
  return commands;
}

std::string replies(const std::string& key) {
  std::string expected;
  for (int i = 0; i < kCommands; ++i) {
    expected += "*5\r\n:0\r\n:1000001\r\n:" + std::to_string(1'000'000 - i) +
                "\r\n:-1\r\n:" + std::to_string(i + 1) + "\r\n";
    if (i % 7 != 0) continue;
    const std::string text = key + std::to_string(i);
    expected += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return expected;
}

// RESP over a store that answers later, on threads of its own.
TEST(ServedLaterStore, KeepsThePipelinesOfManyConnectionsApart) {
  const auto store = still_store();
  store->answers = ScriptedStore::Answers::kOnAnotherThread;
  const MakeHandler make =
      protocols()[0].handlers(std::make_shared<ServerContext>(store, std::vector<Limit>{}, 2));
  StreamServer server({{any_port(), make, ""}}, {.threads = 2});
  server.start();
  std::vector<std::future<bool>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::async(std::launch::async, [&server, i] {
      const std::string key = "key" + std::to_string(i);
      Client client(server.addresses()[0]);
      if (!client.send(pipeline(key))) return false;
      if (i % 2 == 0) client.end();
      const std::string expected = replies(key);
      return client.read(expected.size()) == expected;
    }));
  }
  for (std::future<bool>& client : clients) EXPECT_TRUE(client.get());
}

}  // namespace
}  // namespace sluice

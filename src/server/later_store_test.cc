#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "server/protocols.h"
#include "testing/line_server.h"
#include "testing/served_store.h"

namespace sluice {
namespace {

constexpr int kCommands = 3'000;

/// RESP over a store that answers later, on a thread of its own.
class ServedLaterStoreTest : public testing::Test {
 protected:
  ~ServedLaterStoreTest() override {
    server_.reset();
    stopping_ = true;
    if (answering_.joinable()) answering_.join();
  }

  void serve(const StreamServerOptions& options = {}) {
    const MakeHandler make = protocols()[0].handlers(
        std::make_shared<ServerContext>(store_, std::vector<Limit>{}, options.threads));
    server_.emplace(std::vector<Service>{{any_port(), make, ""}}, options);
    server_->start();
  }

  void answer_always() {
    answering_ = std::thread([this] {
      while (!stopping_) {
        if (store_->pending() == 0) {
          std::this_thread::yield();
        } else {
          store_->answer();
        }
      }
    });
  }

  Address address() const { return server_->addresses()[0]; }

  std::shared_ptr<ScriptedStore> store_ = later_store();
  std::optional<StreamServer> server_;
  std::atomic<bool> stopping_ = false;
  std::thread answering_;
};

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

TEST_F(ServedLaterStoreTest, KeepsThePipelinesOfManyConnectionsApart) {
  serve({.threads = 2});
  answer_always();
  std::vector<std::future<bool>> clients;
  for (int i = 0; i < 6; ++i) {
    clients.push_back(std::async(std::launch::async, [this, i] {
      const std::string key = "key" + std::to_string(i);
      Client client(address());
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

#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/resp/context.h"
#include "protocols/resp/handler.h"
#include "sluice/store.h"
#include "testing/handler_connection.h"

namespace sluice::resp {

// For the tests of protocols/resp.

/// A command as clients send it.
inline std::string array(const std::vector<std::string>& arguments) {
  std::string bytes = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const auto& text : arguments) {
    bytes += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return bytes;
}

/// The only thread of a server over this store, with the limit "login".
inline std::shared_ptr<ThreadState> thread_over(const std::shared_ptr<Store>& store,
                                                std::vector<User> users = {}) {
  const std::vector<Limit> named{Limit("token_bucket 5/1s", "login")};
  const auto server =
      std::make_shared<ServerContext>(store, named, 1, ServerFacts{.users = std::move(users)});
  return std::make_shared<ThreadState>(server, 0, std::make_shared<SharedState>(*server));
}

class TestConnection : public HandlerConnection {
 public:
  explicit TestConnection(std::shared_ptr<ThreadState> thread, std::int64_t id = 7,
                          AcceptedStream stream = {})
      : HandlerConnection(std::make_unique<Handler>(std::move(thread), id, std::move(stream))) {}
};

inline std::shared_ptr<Store> memory_store() {
  return open_store("memory:");
}

/// One connection over the store that `make_store` makes.
template <auto make_store>
class CommandsTest : public testing::Test {
 protected:
  std::string send(std::string_view input) { return connection.send(input); }
  /// Sends one command.
  std::string run(const std::string& command) { return send(command + "\r\n"); }

  decltype(make_store()) store = make_store();
  std::shared_ptr<ThreadState> thread = thread_over(store);
  TestConnection connection{thread};
};

/// A connection over a store that may answer later.
class TestPeer : public TestConnection {
 public:
  explicit TestPeer(std::shared_ptr<ThreadState> thread,
                    const std::shared_ptr<int>& count = std::make_shared<int>(0))
      : TestConnection(std::move(thread), 7, {.wake = [count] { ++*count; }}), wakes(count) {}

  void send(std::string_view bytes) { output += TestConnection::send(bytes); }
  void go_on() { send({}); }
  std::string take_output() { return std::exchange(output, {}); }

  std::string output;
  std::shared_ptr<int> wakes;
};

/// A reply that is an array of integers.
inline std::string integers(std::initializer_list<std::int64_t> numbers) {
  std::string reply = "*" + std::to_string(numbers.size()) + "\r\n";
  for (const auto number : numbers) reply += ":" + std::to_string(number) + "\r\n";
  return reply;
}

}  // namespace sluice::resp

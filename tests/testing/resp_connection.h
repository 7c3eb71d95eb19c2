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

/// A connection around its handler, over a store that answers at once.
class TestConnection {
 public:
  explicit TestConnection(std::shared_ptr<ThreadState> thread, std::int64_t id = 7,
                          AcceptedStream stream = {})
      : handler_(std::move(thread), id, std::move(stream)) {}

  /// Lets the handler have all there is, as a connection does, and returns the replies.
  std::string send(std::string_view input) {
    std::string output;
    StreamHandler::Progress progress{.consumed = 0, .next = StreamHandler::Next::kMore};
    while (progress.next == StreamHandler::Next::kMore) {
      progress = handler_.on_data(input, output);
      input.remove_prefix(progress.consumed);
    }
    next = progress.next;
    has_part = progress.has_part;
    return output;
  }
  std::string time_out() {
    std::string output;
    handler_.on_timeout(output);
    return output;
  }

  /// The peer has not said who it is in time, unless it did.
  bool ends_for_login() {
    if (handler_.awaits_login()) handler_.on_login_timeout();
    return handler_.awaits_login();
  }

  StreamHandler::Next next = StreamHandler::Next::kNeedMore;
  bool has_part = false;

 private:
  Handler handler_;
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

/// A peer and a connection around its handler, over a store that may answer later.
class TestPeer {
 public:
  explicit TestPeer(std::shared_ptr<ThreadState> thread)
      : handler_(std::move(thread), 7, {.wake = [wakes = wakes] { ++*wakes; }}) {}

  /// Further bytes arrive.
  void send(std::string_view bytes) {
    input_ += bytes;
    if (next != StreamHandler::Next::kLater) go_on();
  }

  /// Each call gets the input in new memory, so that the address sanitizer reports a reference to
  /// the former one.
  void go_on() {
    do {
      const auto input = std::make_unique<char[]>(input_.size());
      input_.copy(input.get(), input_.size());
      const auto progress = handler_.on_data({input.get(), input_.size()}, output);
      input_.erase(0, progress.consumed);
      next = progress.next;
    } while (next == StreamHandler::Next::kMore);
  }

  std::string take_output() { return std::exchange(output, {}); }

  std::string output;
  StreamHandler::Next next = StreamHandler::Next::kNeedMore;
  std::shared_ptr<int> wakes = std::make_shared<int>(0);

 private:
  Handler handler_;
  std::string input_;
};

/// A reply that is an array of integers.
inline std::string integers(std::initializer_list<std::int64_t> numbers) {
  std::string reply = "*" + std::to_string(numbers.size()) + "\r\n";
  for (const auto number : numbers) reply += ":" + std::to_string(number) + "\r\n";
  return reply;
}

}  // namespace sluice::resp

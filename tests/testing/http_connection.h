#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/http/handler.h"
#include "service/server_context.h"
#include "testing/handler_connection.h"

namespace sluice::http {

// For the tests of protocols/http.

/// A response, as a client reads it.
struct Reply {
  int status = 0;
  std::string head;
  std::string body;

  /// The value of a header; "(none)" where it is not there.
  std::string header(std::string_view name) const {
    const std::string mark = "\r\n" + std::string(name) + ": ";
    const std::size_t at = head.find(mark);
    if (at == std::string::npos) return "(none)";
    const std::size_t begin = at + mark.size();
    return head.substr(begin, head.find("\r\n", begin) - begin);
  }
};

/// The text that a body has as the value of this member; "(none)" where it has none.
inline std::string value_of(std::string_view body, const std::string& member) {
  const std::string mark = "\"" + member + "\":\"";
  const std::size_t at = body.find(mark);
  if (at == std::string::npos) return "(none)";
  const std::size_t begin = at + mark.size();
  return std::string(body.substr(begin, body.find('"', begin) - begin));
}

/// What commits, at this cost, the reservation that a reply has in its body.
inline std::string commit_of(std::string_view body, const std::string& cost) {
  return R"({"reservation":")" + value_of(body, "reservation") + R"(","cost":)" + cost + "}";
}

/// Cuts responses apart by their lengths; `heads_only`: they answer HEAD.
inline std::vector<Reply> replies_in(std::string_view bytes, bool heads_only = false) {
  std::vector<Reply> replies;
  while (!bytes.empty()) {
    const std::size_t end = bytes.find("\r\n\r\n");
    if (end == std::string_view::npos || !bytes.starts_with("HTTP/1.1 ")) {
      ADD_FAILURE() << "no response: " << bytes;
      break;
    }
    Reply reply{.status = std::stoi(std::string(bytes.substr(9, 3))),
                .head = std::string(bytes.substr(0, end + 2)),
                .body = {}};
    bytes.remove_prefix(end + 4);
    const std::string length = reply.header("Content-Length");
    if (length != "(none)" && !heads_only) {
      reply.body = bytes.substr(0, std::stoul(length));
      bytes.remove_prefix(reply.body.size());
    }
    replies.push_back(std::move(reply));
  }
  return replies;
}

inline std::string get(const std::string& target, const std::string& headers = {}) {
  return "GET " + target + " HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n";
}

inline std::string post(const std::string& path, const std::string& body,
                        const std::string& headers = {}) {
  return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" +
         "Content-Length: " + std::to_string(body.size()) + "\r\n" + headers + "\r\n" + body;
}

/// A server of one thread over this store, with the limits "login", "api" and "jobs".
inline std::shared_ptr<ServerContext> server_over(const std::shared_ptr<Store>& store,
                                                  std::vector<User> users = {}) {
  const std::vector<Limit> named{Limit("token_bucket 5/1s", "login"),
                                 Limit("fixed_window 100/1h", "api"),
                                 Limit("concurrency 1 lease=30s", "jobs")};
  return std::make_shared<ServerContext>(store, named, 1, ServerFacts{.users = std::move(users)});
}

/// Its handlers.
inline MakeHandler handlers_over(const std::shared_ptr<Store>& store,
                                 std::vector<User> users = {}) {
  return handlers(server_over(store, std::move(users)));
}

class TestConnection : public HandlerConnection {
 public:
  explicit TestConnection(const MakeHandler& make, AcceptedStream stream = accepted())
      : HandlerConnection(make(std::move(stream))) {}

  static AcceptedStream accepted() {
    return {.thread = 0, .wake = [] {}, .peer = "127.0.0.1", .is_loopback = true};
  }

  std::vector<Reply> ask(std::string_view bytes) { return replies_in(send(bytes)); }
  Reply ask_one(std::string_view bytes) {
    const std::vector<Reply> replies = ask(bytes);
    EXPECT_EQ(replies.size(), 1U);
    return replies.size() == 1 ? replies[0] : Reply{};
  }
};

/// One connection over the store that `make_store` makes.
template <auto make_store>
class ConnectionTest : public testing::Test {
 protected:
  decltype(make_store()) store = make_store();
  MakeHandler make = handlers_over(store);
  TestConnection connection{make};
};

}  // namespace sluice::http

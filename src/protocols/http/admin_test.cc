// Which paths a listener has: see Place in routes.h.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>

#include "sluice/store.h"
#include "testing/http_connection.h"

namespace sluice::http {
namespace {

using testing::HasSubstr;

constexpr auto kAdminPaths =
    std::to_array<std::string_view>({"/", "/playground", "/v1/limits", "/v1/top", "/metrics",
                                     "/v1/reset", "/v1/refund", "/v1/charge", "/v1/block"});
constexpr auto kHttpPaths = std::to_array<std::string_view>(
    {"/auth", "/auth/login/path", "/v1/check", "/v1/peek", "/v1/take", "/v1/reserve", "/v1/commit",
     "/v1/permits/acquire", "/v1/permits/renew", "/v1/permits/release"});

AcceptedStream loopback() {
  return {.wake = [] {}, .peer = "127.0.0.1", .is_loopback = true};
}
AcceptedStream unix_socket() {
  return {.wake = [] {}, .peer = "unix:"};
}
// A connection to an address that other machines can reach; its peer may be a program of this
// machine.
AcceptedStream remote(std::string peer = "203.0.113.9") {
  return {.wake = [] {}, .peer = std::move(peer)};
}

class PlaceTest : public testing::Test {
 protected:
  // Whether the listener has the path: an empty request for it is then an error, but not 404.
  static bool has(const MakeHandler& listener, AcceptedStream stream, std::string_view path) {
    TestConnection connection(listener, std::move(stream));
    const Reply reply = connection.ask_one(post(std::string(path), "{}"));
    EXPECT_NE(reply.status, 0);
    return reply.status != 404 || reply.body.find("this path") == std::string::npos;
  }
  static void expect_paths(const MakeHandler& listener, const AcceptedStream& stream, bool has_http,
                           bool has_admin) {
    for (const std::string_view path : kHttpPaths) {
      EXPECT_EQ(has(listener, stream, path), has_http) << path;
    }
    for (const std::string_view path : kAdminPaths) {
      EXPECT_EQ(has(listener, stream, path), has_admin) << path;
    }
    TestConnection connection(listener, stream);
    EXPECT_EQ(connection.ask_one(get("/healthz")).status, 200);
    EXPECT_EQ(connection.ask_one(get("/readyz")).status, 200);
  }

  const std::shared_ptr<ServerContext> server_ = server_over(open_store("memory:"));
  const MakeHandler http_ = handlers(server_);
  const MakeHandler admin_ = admin_handlers(server_);
};

TEST_F(PlaceTest, HttpOfThisMachineHasAllWithoutAdmin) {
  expect_paths(http_, loopback(), true, true);
  expect_paths(http_, unix_socket(), true, true);
}

TEST_F(PlaceTest, HttpOfOtherMachinesNeverHasThoseOfAdmin) {
  expect_paths(http_, remote(), true, false);
  expect_paths(http_, remote("127.0.0.1"), true, false);
}

TEST_F(PlaceTest, HttpLeavesThemToAdmin) {
  server_->set_admin_apart(true);
  expect_paths(http_, loopback(), true, false);
  expect_paths(http_, unix_socket(), true, false);
  expect_paths(http_, remote(), true, false);
}

TEST_F(PlaceTest, AdminHasItsOwnAlone) {
  server_->set_admin_apart(true);
  expect_paths(admin_, loopback(), false, true);
  expect_paths(admin_, unix_socket(), false, true);
  expect_paths(admin_, remote(), false, true);
}

TEST_F(PlaceTest, ConnectionsThatAreOpenNoticeThatAdminWasAddedOrRemoved) {
  TestConnection connection(http_);
  EXPECT_EQ(connection.ask_one(get("/metrics")).status, 200);
  server_->set_admin_apart(true);
  const Reply gone = connection.ask_one(get("/metrics"));
  EXPECT_EQ(gone.status, 404);
  EXPECT_THAT(gone.body, HasSubstr("at the addresses of admin alone"));
  server_->set_admin_apart(false);
  EXPECT_EQ(connection.ask_one(get("/metrics")).status, 200);
}

TEST_F(PlaceTest, ThePlaygroundIsAlsoWhereAPersonLooksFirst) {
  TestConnection connection(http_);
  const Reply page = connection.ask_one(get("/"));
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.body, connection.ask_one(get("/playground")).body);
  EXPECT_EQ(connection.ask_one(get("/nothing")).status, 404);
}

TEST_F(PlaceTest, ConnectionsAreCountedApart) {
  TestConnection http(http_);
  TestConnection admin(admin_);
  const std::string metrics = admin.ask_one(get("/metrics")).body;
  EXPECT_THAT(metrics, HasSubstr("sluice_connections{protocol=\"http\"} 1\n"));
  EXPECT_THAT(metrics, HasSubstr("sluice_connections{protocol=\"admin\"} 1\n"));
}

// A user needs the role at the addresses of --admin, too. Users do not make the paths available
// elsewhere.
TEST(AdminUsersTest, NeedTheRole) {
  const auto server =
      server_over(open_store("memory:"), {{"gateway", token_sha256("secret"), "", kCheckRole},
                                          {"operator", token_sha256("other"), "", kAdminRole}});
  const auto status = [](const MakeHandler& listener, const std::string& token) {
    TestConnection connection(listener, remote());
    return connection
        .ask_one(post("/v1/reset", R"({"limit":"login","key":"k"})",
                      token.empty() ? "" : "Authorization: Bearer " + token + "\r\n"))
        .status;
  };
  const MakeHandler admin = admin_handlers(server);
  EXPECT_EQ(status(admin, ""), 401);
  EXPECT_EQ(status(admin, "secret"), 403);
  EXPECT_EQ(status(admin, "other"), 204);
  EXPECT_EQ(status(handlers(server), "other"), 404);
}

}  // namespace
}  // namespace sluice::http

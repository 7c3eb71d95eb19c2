#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "sluice/store.h"
#include "testing/http_connection.h"
#include "testing/users.h"

namespace sluice::http {
namespace {

using testing::HasSubstr;

const char* const kCheckBody = R"({"limit":"login","key":"k"})";

class UsersTest : public testing::Test {
 protected:
  static std::string bearer(const std::string& token) {
    return "Authorization: Bearer " + token + "\r\n";
  }

  const std::shared_ptr<ServerContext> server_ = server_over(open_store("memory:"), test_users());
  const MakeHandler make_ = handlers(server_);
  TestConnection connection_{make_};
};

TEST_F(UsersTest, AskForATokenOnEachRequest) {
  const Reply none = connection_.ask_one(post("/v1/check", kCheckBody));
  EXPECT_EQ(none.status, 401);
  EXPECT_EQ(none.header("WWW-Authenticate"), "Bearer");
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody, bearer("wrong"))).status, 401);
  EXPECT_EQ(
      connection_.ask_one(post("/v1/check", kCheckBody, "Authorization: Basic YTpi\r\n")).status,
      401);
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody, bearer("secret"))).status, 200);
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody, bearer("  secret"))).status, 200);
  EXPECT_EQ(
      connection_.ask_one(post("/v1/check", kCheckBody, bearer("secret") + bearer("other"))).status,
      400);
  // A token is valid for its request only.
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody)).status, 401);
}

TEST_F(UsersTest, MustSendATokenInTime) {
  EXPECT_TRUE(connection_.ends_for_login());
  EXPECT_EQ(connection_.ask_one(get("/healthz", bearer("wrong"))).status, 200);
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody, bearer("wrong"))).status, 401);
  EXPECT_TRUE(connection_.ends_for_login());
  // The user is known, although it may not do this. It may then be idle, and ask what needs no
  // token.
  EXPECT_EQ(connection_.ask_one(get("/v1/limits", bearer("secret"))).status, 403);
  EXPECT_FALSE(connection_.ends_for_login());
  EXPECT_EQ(connection_.ask_one(get("/healthz")).status, 200);
  EXPECT_FALSE(connection_.ends_for_login());
  TestConnection proxy(make_);
  proxy.ask_one(get("/auth?limit=login&key=k", "X-Sluice-Token: secret\r\n"));
  EXPECT_FALSE(proxy.ends_for_login());
  TestConnection certified(make_, {.peer = "192.0.2.1", .certificate = "CN=gateway"});
  EXPECT_FALSE(certified.ends_for_login());
  TestConnection without_users(handlers_over(open_store("memory:")));
  EXPECT_FALSE(without_users.ends_for_login());
}

TEST_F(UsersTest, MustHaveTheRightBeforeALongBodyIsRead) {
  using Next = StreamHandler::Next;
  for (const std::string length : {"Content-Length: 20000", "Transfer-Encoding: chunked"}) {
    const auto ask = [&](const std::string& path, const std::string& token) {
      TestConnection connection(make_);
      const auto replies = connection.ask("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                                          bearer(token) + length + "\r\n\r\n");
      EXPECT_EQ(connection.progress.next == Next::kClose, !replies.empty()) << path;
      return replies.empty() ? 0 : replies[0].status;
    };
    EXPECT_EQ(ask("/v1/check", "wrong"), 401);
    EXPECT_EQ(ask("/v1/reset", "secret"), 403);
    EXPECT_EQ(ask("/nothing", "secret"), 404);
    EXPECT_EQ(ask("/metrics", "third"), 405);
    EXPECT_EQ(ask("/v1/check", "secret"), 0);  // It waits for the body.
  }
  const std::string spaces(20'000, ' ');
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody + spaces, bearer("secret"))).status,
            200);
}

TEST_F(UsersTest, MayDoWhatTheirRolesSay) {
  for (const std::string path : {"/v1/reset", "/v1/refund", "/v1/charge", "/v1/block"}) {
    EXPECT_EQ(connection_.ask_one(post(path, kCheckBody, bearer("secret"))).status, 403) << path;
    EXPECT_NE(connection_.ask_one(post(path, kCheckBody, bearer("other"))).status, 403) << path;
  }
  EXPECT_EQ(connection_.ask_one(get("/v1/limits", bearer("secret"))).status, 403);
  EXPECT_EQ(connection_.ask_one(get("/v1/limits", bearer("other"))).status, 200);
  EXPECT_EQ(connection_.ask_one(get("/metrics", bearer("other"))).status, 403);
  EXPECT_EQ(connection_.ask_one(get("/metrics", bearer("third"))).status, 200);
  EXPECT_EQ(connection_.ask_one(post("/v1/check", kCheckBody, bearer("third"))).status, 403);
}

// A user needs the role at the addresses of --admin, too. Users do not make the paths available
// elsewhere.
TEST_F(UsersTest, NeedTheRoleWhereverThePathsOfAdminAre) {
  const auto status = [](const MakeHandler& listener, const std::string& headers) {
    TestConnection connection(listener, {.peer = "203.0.113.9"});
    return connection.ask_one(post("/v1/reset", kCheckBody, headers)).status;
  };
  const MakeHandler admin = admin_handlers(server_);
  EXPECT_EQ(status(admin, ""), 401);
  EXPECT_EQ(status(admin, bearer("secret")), 403);
  EXPECT_EQ(status(admin, bearer("other")), 204);
  EXPECT_EQ(status(make_, bearer("other")), 404);
}

TEST_F(UsersTest, MayHaveCertificates) {
  TestConnection known(make_, {.peer = "::1", .is_loopback = true, .certificate = "CN=gateway"});
  EXPECT_EQ(known.ask_one(post("/v1/check", kCheckBody)).status, 200);
  EXPECT_EQ(known.ask_one(post("/v1/reset", kCheckBody)).status, 403);
  EXPECT_EQ(known.ask_one(get("/auth?limit=login")).status, 204);
  // The proxy's certificate counts, whatever its client sends.
  const std::string theirs = "X-Sluice-Token: wrong\r\n";
  EXPECT_EQ(known.ask_one(get("/auth?limit=login", theirs + theirs)).status, 204);
  TestConnection other(make_, {.peer = "192.0.2.1", .certificate = "CN=other"});
  EXPECT_EQ(other.ask_one(post("/v1/check", kCheckBody)).status, 401);
}

TEST_F(UsersTest, MayBeReplaced) {
  TestConnection known(make_, {.peer = "192.0.2.1", .certificate = "CN=gateway"});
  EXPECT_EQ(known.ask_one(post("/v1/check", kCheckBody)).status, 200);
  server_->access().users().replace(std::make_shared<const Access::Users>(
      Access::Users{{"gateway", token_sha256("rotated"), "", kCheckRole}}));
  EXPECT_EQ(known.ask_one(post("/v1/check", kCheckBody)).status, 401);
}

// A user without the role admin can bring a key into debt by what its limit admits at once, and no
// further.
TEST_F(UsersTest, CommitMoreThanTheyReservedUpToABound) {
  const auto reserve = [&](const std::string& key, int cost) {
    const std::string body =
        R"({"limit":"login","key":")" + key + R"(","cost":)" + std::to_string(cost) + "}";
    return connection_.ask_one(post("/v1/reserve", body, bearer("secret"))).body;
  };
  const auto commit = [&](const std::string& reserved, const std::string& cost,
                          const std::string& token) {
    return connection_.ask_one(post("/v1/commit", commit_of(reserved, cost), bearer(token)));
  };
  const std::string reserved = reserve("k", 2);
  const Reply refused = commit(reserved, "8", "secret");
  EXPECT_EQ(refused.status, 403);
  EXPECT_THAT(refused.body, HasSubstr("by at most 5\""));
  EXPECT_EQ(commit(reserved, "7", "secret").status, 200);
  EXPECT_EQ(commit(reserved, "7", "secret").status, 409);
  EXPECT_EQ(commit(reserve("other", 1), "9000000000", "other").status, 200);
  // A reservation of 0 units cannot charge any.
  const std::string none = reserve("free", 0);
  EXPECT_EQ(commit(none, "1", "secret").status, 403);
  EXPECT_EQ(commit(none, "0", "secret").status, 200);
}

TEST_F(UsersTest, WithTooManyWrongTokensLoseTheConnection) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(connection_.ask_one(get("/v1/limits", bearer("wrong"))).status, 401);
  }
  const Reply refused = connection_.ask_one(
      "GET /v1/limits HTTP/1.0\r\nHost: localhost\r\n"
      "Connection: keep-alive\r\n" +
      bearer("wrong") + "\r\n");
  EXPECT_EQ(refused.status, 429);
  EXPECT_EQ(refused.header("Connection"), "close");
  EXPECT_THAT(refused.head, testing::Not(HasSubstr("keep-alive")));
  EXPECT_EQ(connection_.progress.next, StreamHandler::Next::kClose);
  TestConnection next(make_);
  EXPECT_EQ(next.ask_one(get("/v1/limits", bearer("other"))).status, 200);
}

}  // namespace
}  // namespace sluice::http

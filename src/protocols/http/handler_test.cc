#include "protocols/http/handler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/http_connection.h"
#include "testing/served_store.h"

namespace sluice::http {
namespace {

using testing::ElementsAre;
using testing::Field;
using testing::HasSubstr;
using testing::StartsWith;
using Next = StreamHandler::Next;

const std::string kCheckBob = R"({"limit":"login","key":"bob"})";

class HandlerTest : public ConnectionTest<still_store> {
 protected:
  Reply ask(std::string_view bytes) { return connection.ask_one(bytes); }
};

TEST_F(HandlerTest, AnswersARequest) {
  EXPECT_EQ(connection.send(post("/v1/check", kCheckBob)),
            "HTTP/1.1 200 OK\r\n"
            "Date: Tue, 14 Nov 2023 22:13:20 GMT\r\n"
            "Content-Type: application/json\r\n"
            "Content-Length: 110\r\n"
            "RateLimit-Policy: \"login\";q=5;w=1\r\n"
            "RateLimit: \"login\";r=4;t=1\r\n"
            "\r\n"
            R"({"allowed":true,"limit":5,"remaining":4,"retry_after_ms":0,"reset_after_ms":200,)"
            R"("delay_ms":0,"source":"store"})");
  EXPECT_EQ(connection.progress.next, Next::kNeedMore);
  EXPECT_FALSE(connection.progress.has_part);
}

TEST(DrainingHandlerTest, AnswersAllThatHasCome) {
  const auto server = std::make_shared<ServerContext>(still_store(), ServedLimits{}, 1);
  TestConnection connection(handlers(server));
  server->begin_drain();
  std::string many;
  for (int i = 0; i < 100; ++i) many += get("/healthz");
  // The handler waits for the rest of a request.
  const std::vector<Reply> first = connection.ask(many + "GET /hea");
  ASSERT_EQ(first.size(), 100U);
  EXPECT_EQ(first.back().header("Connection"), "(none)");
  EXPECT_EQ(connection.progress.next, Next::kNeedMore);
  const Reply last = connection.ask_one("lthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(last.header("Connection"), "close");
  EXPECT_EQ(connection.progress.next, Next::kClose);
}

TEST_F(HandlerTest, AsksWhatIsSentTogetherInOneBatch) {
  const std::string bytes = get("/healthz") + post("/v1/check", kCheckBob) + get("/nope") +
                            post("/v1/check", kCheckBob) + get("/auth?limit=login&key=bob") +
                            get("/healthz");
  EXPECT_THAT(
      connection.ask(bytes),
      ElementsAre(Field(&Reply::status, 200), Field(&Reply::body, HasSubstr("\"remaining\":4")),
                  Field(&Reply::status, 404), Field(&Reply::body, HasSubstr("\"remaining\":3")),
                  Field(&Reply::head, HasSubstr("r=2")), Field(&Reply::status, 200)));
  EXPECT_THAT(store->batches, ElementsAre(3));
  std::string many;
  for (int i = 0; i < 100; ++i) many += get("/auth?limit=api&key=k");
  EXPECT_EQ(connection.ask(many).size(), 100U);
  EXPECT_THAT(store->batches, ElementsAre(3, 64, 36));
}

// A batch of requests for which the memory store opens spaces takes others of the thread longer.
TEST_F(HandlerTest, ALimitThatTheThreadDoesNotKnowCountsAs16Requests) {
  std::string requests;
  std::string checks;
  for (int i = 1; i <= 6; ++i) {
    const std::string limit = "token_bucket " + std::to_string(i) + "/1h";
    requests += post("/v1/check", R"({"limit":")" + limit + R"(","key":"bob"})");
    if (!checks.empty()) checks += ',';
    checks += R"({"limit":"fixed_window )" + std::to_string(i) + R"(/1h","key":"bob"})";
  }
  EXPECT_EQ(connection.ask(requests).size(), 6U);
  EXPECT_THAT(store->batches, ElementsAre(4, 2));
  connection.ask(requests);  // Now it knows them.
  EXPECT_THAT(store->batches, ElementsAre(4, 2, 6));
  const std::string list = post("/v1/check", "{\"checks\":[" + checks + "]}");
  connection.ask(list);
  connection.ask(list);
  EXPECT_THAT(store->batches, ElementsAre(4, 2, 6, 4, 2, 6));
}

// What is sent after a report waits until that has been sent.
TEST_F(HandlerTest, AReportIsTheLastRequestOfItsBatch) {
  for (const std::string target : {"/v1/limits", "/v1/top?limit=login", "/metrics"}) {
    const auto handler = make(TestConnection::accepted());
    std::string output;
    const auto progress = handler->on_data(get(target) + get("/healthz"), output);
    EXPECT_EQ(progress.consumed, get(target).size()) << target;
    EXPECT_EQ(progress.next, Next::kMore) << target;
  }
}

TEST_F(HandlerTest, AsksForTheBody) {
  const std::string head =
      "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
      "Expect: 100-continue\r\nContent-Length: " +
      std::to_string(kCheckBob.size()) + "\r\n\r\n";
  // After the reply to what came before it.
  EXPECT_THAT(connection.ask(get("/auth?limit=login") + head),
              ElementsAre(Field(&Reply::status, 204), Field(&Reply::status, 100)));
  EXPECT_TRUE(connection.progress.has_part);
  EXPECT_EQ(ask(kCheckBob).status, 200);
}

TEST_F(HandlerTest, ClosesWhereTheClientWantsIt) {
  EXPECT_EQ(ask(get("/healthz", "Connection: close\r\n") + get("/healthz")).header("Connection"),
            "close");
  EXPECT_EQ(connection.progress.next, Next::kClose);
  TestConnection old(make);
  EXPECT_EQ(old.ask_one("GET /healthz HTTP/1.0\r\n\r\n").header("Connection"), "close");
  EXPECT_EQ(old.progress.next, Next::kClose);
  TestConnection keeping(make);
  EXPECT_EQ(keeping.ask_one("GET /healthz HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
                .header("Connection"),
            "keep-alive");
  EXPECT_EQ(keeping.progress.next, Next::kNeedMore);
}

TEST_F(HandlerTest, AnswersHeadWithoutABody) {
  const std::string reply = connection.send("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(reply, HasSubstr("\r\nContent-Length: 15\r\n"));
  EXPECT_TRUE(reply.ends_with("\r\n\r\n"));
  EXPECT_THAT(connection.send("HEAD /nope HTTP/1.1\r\nHost: localhost\r\n\r\n"),
              testing::EndsWith("\r\n\r\n"));
}

TEST_F(HandlerTest, SaysWhichMethodsThereAre) {
  const Reply reply = ask(get("/v1/check"));
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("Allow"), "POST");
  EXPECT_EQ(ask(post("/auth?limit=login", "")).header("Allow"), "GET, HEAD");
  EXPECT_EQ(ask(get("/v1/check/")).status, 404);
}

TEST_F(HandlerTest, RefusesPagesOfOtherSites) {
  EXPECT_EQ(ask(get("/v1/limits", "Origin: http://evil.example\r\n")).status, 403);
  EXPECT_EQ(ask(get("/v1/limits", "Origin: null\r\n")).status, 403);
  EXPECT_EQ(ask(get("/v1/limits", "Origin: http://localhost\r\n")).status, 200);
  const auto from_host = [&](const std::string& host, bool is_loopback) {
    AcceptedStream stream = TestConnection::accepted();
    stream.is_loopback = is_loopback;
    return TestConnection(make, stream)
        .ask_one("GET /healthz HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
        .status;
  };
  for (const std::string host : {"localhost", "LOCALHOST:8080", "a.localhost", "127.0.0.1:8080",
                                 "127.1.2.3", "[::1]", "[::1]:8080"}) {
    EXPECT_EQ(from_host(host, true), 200) << host;
  }
  for (const std::string host : {"evil.example", "evillocalhost", "127.0.0.1.evil.example",
                                 "localhost.evil.example", "[::2]", "10.0.0.1"}) {
    EXPECT_EQ(from_host(host, true), 403) << host;
    EXPECT_EQ(from_host(host, false), 200) << host;
  }
  // A proxy passes on what its own client has sent.
  EXPECT_EQ(ask(get("/auth?limit=login",
                    "Origin: http://evil.example\r\nX-Forwarded-For: 203.0.113.7\r\n"))
                .status,
            204);
}

TEST_F(HandlerTest, TellsAClientWhyItsRequestIsNotAwaited) {
  connection.send("GET / HTTP/1.1\r\n");
  EXPECT_TRUE(connection.progress.has_part);
  using Why = StreamHandler::EndReason;
  for (const auto& [why, status] : {std::pair(Why::kLate, "408 "), {Why::kNoMemory, "503 "}}) {
    const std::string reply = connection.end(why);
    EXPECT_THAT(reply, StartsWith(std::string("HTTP/1.1 ") + status));
    EXPECT_THAT(reply, HasSubstr("\r\nConnection: close\r\n"));
  }
}

TEST_F(HandlerTest, SaysHowMuchItHolds) {
  const std::string request = post("/v1/check", std::string(500'000, ' ') + "{}");
  connection.send(request.substr(0, 400'000));
  EXPECT_GE(connection.held_bytes(), 390'000U);
  EXPECT_THAT(connection.send(request.substr(400'000) + get("/healthz")), HasSubstr("200 OK"));
  EXPECT_LE(connection.held_bytes(), 40'000U);
}

// The memory of a batch is used again, and not twice as much for the next one.
TEST_F(HandlerTest, LargeBatchesDoNotNeedMoreAndMore) {
  const std::string check = R"({"limit":"login","key":")" + std::string(20'000, 'k') + "\"}";
  for (int i = 0; i < 50; ++i) EXPECT_LE(ask(post("/v1/check", check)).status, 429) << i;
}

// For example because the system cannot start a thread.
TEST_F(HandlerTest, AnswersWhereTheSystemFails) {
  store->breaks = broken_system();
  const std::vector<Reply> replies = connection.ask(
      post("/v1/check", R"({"limit":"token_bucket 7/1s","key":"bob"})") + get("/healthz"));
  ASSERT_THAT(replies, ElementsAre(Field(&Reply::status, 503), Field(&Reply::status, 200)));
  EXPECT_EQ(replies[0].header("Retry-After"), "1");
  EXPECT_THAT(replies[0].body, HasSubstr("there is none: Input/output error"));
}

TEST_F(HandlerTest, HasACompleteRefusal) {
  const std::vector<Reply> replies = replies_in(kRefusal);
  ASSERT_EQ(replies.size(), 1U);
  EXPECT_EQ(replies[0].status, 503);
  EXPECT_TRUE(replies[0].body.ends_with('}'));
  EXPECT_EQ(replies[0].header("Retry-After"), "1");
}

using LaterHandlerTest = ConnectionTest<later_store>;

TEST_F(LaterHandlerTest, WaitsForTheStore) {
  const std::string check = R"({"limit":"login","key":"lost"})";
  const std::string bytes = get("/healthz") + post("/v1/check", kCheckBob) + get("/nope") +
                            post("/v1/check", check) + get("/auth?limit=login&key=lost") +
                            get("/healthz");
  EXPECT_THAT(connection.ask(bytes), ElementsAre(Field(&Reply::status, 200)));
  EXPECT_EQ(connection.progress.next, Next::kLater);
  EXPECT_EQ(connection.send(get("/healthz")), "");
  ASSERT_TRUE(store->answer());
  const std::vector<Reply> replies = connection.ask("");
  EXPECT_THAT(replies, ElementsAre(Field(&Reply::status, 200), Field(&Reply::status, 404),
                                   Field(&Reply::status, 503), Field(&Reply::status, 503),
                                   Field(&Reply::status, 200), Field(&Reply::status, 200)));
  EXPECT_EQ(replies[2].header("Retry-After"), "1");
  EXPECT_THAT(replies[2].body, HasSubstr("#temporary-reduced-capacity"));
  EXPECT_THAT(replies[2].body, HasSubstr("has not answered within 10ms"));
  // Some proxies pass the answer of /auth on to their clients.
  EXPECT_THAT(replies[3].body, HasSubstr("the store did not answer"));
}

TEST_F(LaterHandlerTest, AnswersAListBatchByBatch) {
  std::string checks;
  for (int i = 0; i < 130; ++i) {
    checks += std::string(i == 0 ? "" : ",") + R"({"limit":"api","key":")" +
              (i == 7 ? "lost" : "bob") + R"("})";
  }
  const std::string list = post("/v1/check", "{\"checks\":[" + checks + "]}");
  EXPECT_EQ(connection.send(post("/v1/check", kCheckBob) + list + get("/healthz")), "");
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(connection.ask("").size(), 1U);
  // Another connection of the thread is served meanwhile.
  TestConnection other(make);
  other.send(get("/auth?limit=login&key=eve"));
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(connection.send(""), "");
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(other.ask_one("").status, 204);
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(connection.send(""), "");
  ASSERT_TRUE(store->answer());
  const std::vector<Reply> replies = connection.ask("");
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_THAT(store->batches, ElementsAre(1, 64, 1, 64, 2));
  EXPECT_THAT(replies[0].body, HasSubstr("\"status\":503"));
  EXPECT_THAT(replies[0].body, HasSubstr("\"remaining\":0"));
  EXPECT_EQ(replies[1].body, R"({"status":"ok"})");
}

TEST_F(LaterHandlerTest, AsksTogether) {
  const std::string all = R"({"checks":[{"limit":"login","key":"a"},{"limit":"api","key":"b"}],)"
                          R"("all":true})";
  EXPECT_EQ(connection.send(get("/auth?limit=api&key=b") + post("/v1/check", all)), "");
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(connection.ask_one("").status, 204);
  ASSERT_TRUE(store->answer());
  EXPECT_THAT(connection.ask_one("").body, HasSubstr("\"binding\":0"));
  EXPECT_THAT(store->batches, ElementsAre(1, 2));
}

class LaterCommitTest : public ConnectionTest<later_store> {
 protected:
  // A commit of a new reservation of this key.
  std::string commit_for(const std::string& key) {
    connection.send(post("/v1/reserve", R"({"limit":"login","key":")" + key + "\"}"));
    EXPECT_TRUE(store->answer());
    return post("/v1/commit", commit_of(connection.ask_one("").body, "0"));
  }
};

TEST_F(LaterCommitTest, IsRepeatedWhileTheFirstIsUnderWay) {
  for (const bool is_lost : {false, true}) {
    const std::string commit = commit_for("bob");
    EXPECT_EQ(connection.send(commit), "");
    TestConnection other(make);
    const Reply early = other.ask_one(commit);
    EXPECT_EQ(early.status, 503);
    EXPECT_EQ(early.header("Retry-After"), "1");
    EXPECT_THAT(early.body, HasSubstr("the reservation is being committed"));
    if (is_lost) store->lose_all();
    ASSERT_TRUE(store->answer());
    EXPECT_EQ(connection.ask_one("").status, is_lost ? 503 : 200);
    store->lose_nothing();
    if (!is_lost) {
      EXPECT_EQ(other.ask_one(commit).status, 409);
      continue;
    }
    EXPECT_EQ(other.send(commit), "");
    ASSERT_TRUE(store->answer());
    EXPECT_EQ(other.ask_one("").status, 200);
  }
}

TEST_F(LaterCommitTest, IsRepeatedBehindTheFirst) {
  const std::string commit = commit_for("bob");
  EXPECT_EQ(connection.send(commit + commit), "");
  ASSERT_TRUE(store->answer());
  EXPECT_THAT(connection.ask(""),
              ElementsAre(Field(&Reply::status, 200), Field(&Reply::status, 409)));
}

// The store may have forgotten what was reserved while it was asked to reset the key.
TEST_F(LaterCommitTest, ReturnsNothingThatAResetUnderWayMayHaveForgotten) {
  TestConnection other(make);
  EXPECT_EQ(other.send(post("/v1/reset", R"({"limit":"login","key":"bob"})")), "");
  EXPECT_EQ(connection.send(post("/v1/reserve", R"({"limit":"login","key":"bob"})")), "");
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(other.ask_one("").status, 204);
  ASSERT_TRUE(store->answer());
  EXPECT_EQ(connection.send(post("/v1/commit", commit_of(connection.ask_one("").body, "0"))), "");
  ASSERT_TRUE(store->answer());
  EXPECT_THAT(connection.ask_one("").body, HasSubstr("\"remaining\":4"));
}

// It is then unknown whether the store has carried it out.
TEST_F(LaterCommitTest, IsCommittedWhereTheClientHasLeft) {
  const std::string commit = commit_for("bob");
  { TestConnection(make).send(commit); }
  EXPECT_EQ(connection.ask_one(commit).status, 409);
  EXPECT_TRUE(store->answer());
}

TEST_F(LaterHandlerTest, MayBeDestroyedWhileItWaits) {
  { TestConnection(make).send(post("/v1/reserve", kCheckBob)); }
  EXPECT_TRUE(store->answer());
}

}  // namespace
}  // namespace sluice::http

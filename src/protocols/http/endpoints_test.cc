#include "protocols/http/endpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "protocols/http/json_body.h"
#include "testing/http_connection.h"
#include "testing/served_store.h"

namespace sluice::http {
namespace {

using testing::HasSubstr;

std::string problem(int status, const std::string& title, const std::string& detail,
                    const std::string& members = {}) {
  return R"({"type":"about:blank","title":")" + title + R"(","status":)" + std::to_string(status) +
         R"(,"detail":")" + detail + "\"" + members + "}";
}

std::string decision(const std::string& allowed, int limit, int remaining,
                     const std::string& retry_ms, int reset_ms, const std::string& more = {}) {
  return R"("allowed":)" + allowed + R"(,"limit":)" + std::to_string(limit) + R"(,"remaining":)" +
         std::to_string(remaining) + R"(,"retry_after_ms":)" + retry_ms + R"(,"reset_after_ms":)" +
         std::to_string(reset_ms) + R"(,"delay_ms":0,"source":"store")" + more;
}

class EndpointsTest : public ConnectionTest<still_store> {
 protected:
  Reply ask(const std::string& path, const std::string& body) {
    return connection.ask_one(post(path, body));
  }
  /// The members of a 200 or 429.
  std::string members(const std::string& path, const std::string& body, int status = 200) {
    const Reply reply = ask(path, body);
    EXPECT_EQ(reply.status, status) << reply.body;
    EXPECT_EQ(reply.header("Content-Type"), "application/json");
    return reply.body.size() < 2 ? "" : reply.body.substr(1, reply.body.size() - 2);
  }
  std::string bad(const std::string& body) { return ask("/v1/check", body).body; }
};

const std::string kBob = R"({"limit":"login","key":"bob")";

TEST_F(EndpointsTest, ChecksPeeksAndResets) {
  EXPECT_EQ(members("/v1/check", kBob + "}"), decision("true", 5, 4, "0", 200));
  EXPECT_EQ(members("/v1/check", kBob + R"(,"cost":4})"), decision("true", 5, 0, "0", 1000));
  *store->clock += 500'000;
  EXPECT_EQ(members("/v1/check", kBob + "}", 429), decision("false", 5, 0, "200", 1000));
  EXPECT_EQ(members("/v1/check", kBob + R"(,"cost":6})", 429),
            decision("false", 5, 0, "null", 1000));
  EXPECT_EQ(members("/v1/peek", kBob + "}"), decision("true", 5, 0, "0", 1000));
  const Reply reset = ask("/v1/reset", kBob + "}");
  EXPECT_EQ(reset.status, 204);
  EXPECT_EQ(reset.header("Content-Length"), "(none)");
  EXPECT_EQ(members("/v1/peek", kBob + "}"), decision("true", 5, 5, "0", 0));
}

TEST_F(EndpointsTest, ChangesKeys) {
  EXPECT_EQ(members("/v1/take", kBob + R"(,"cost":9})"),
            decision("true", 5, 0, "0", 1000, ",\"taken\":5"));
  EXPECT_EQ(members("/v1/take", kBob + R"(,"cost":9})", 429),
            decision("false", 5, 0, "200", 1000, ",\"taken\":0"));
  EXPECT_EQ(members("/v1/refund", kBob + R"(,"cost":2})"), decision("true", 5, 2, "0", 600));
  EXPECT_EQ(members("/v1/charge", kBob + R"(,"cost":3})"), decision("true", 5, 0, "0", 1200));
  EXPECT_EQ(members("/v1/block", kBob + R"(,"duration_ms":60000})"),
            decision("true", 5, 0, "0", 60000));
  EXPECT_EQ(members("/v1/check", kBob + "}", 429), decision("false", 5, 0, "60000", 60000));
}

TEST_F(EndpointsTest, SaysHowHeadersAreWritten) {
  const Reply reply =
      connection.ask_one(post("/v1/check?headers=x-ratelimit", kBob + R"(,"cost":5})"));
  EXPECT_EQ(reply.header("X-RateLimit-Remaining"), "0");
  const Reply denied = connection.ask_one(post("/v1/check?headers=none", kBob + "}"));
  EXPECT_EQ(denied.header("RateLimit"), "(none)");
  EXPECT_EQ(denied.header("Retry-After"), "1");
  EXPECT_EQ(denied.header("Cache-Control"), "no-store");
  EXPECT_EQ(connection.ask_one(post("/v1/check?headers=bad", kBob + "}")).status, 400);
  const std::string unknown = "?x=1&x=2&50%off";  // Not looked at.
  EXPECT_EQ(connection.ask_one(post("/v1/peek" + unknown, kBob + "}")).status, 200);
  EXPECT_EQ(connection.ask_one(get("/healthz" + unknown)).status, 200);
  const std::string twice = "?headers=none&headers=none";
  for (const std::string path : {"/v1/check", "/v1/take"}) {
    EXPECT_EQ(connection.ask_one(post(path + twice, kBob + "}")).status, 400) << path;
  }
}

TEST_F(EndpointsTest, NamesWhatIsWrongWithABody) {
  EXPECT_EQ(
      bad(kBob + R"(,"kost":1})"),
      problem(400, "Bad Request", R"(the member \"kost\" is unknown (did you mean 'cost'?))"));
  EXPECT_EQ(bad(kBob + R"(,"user":1})"),
            problem(400, "Bad Request", R"(the member \"user\" is unknown)"));
  // Although the member that is meant is missing.
  EXPECT_EQ(
      bad(R"({"cost":1,"limti":"login","key":"a"})"),
      problem(400, "Bad Request", R"(the member \"limti\" is unknown (did you mean 'limit'?))"));
  EXPECT_THAT(bad(R"({"check":[]})"), HasSubstr("(did you mean 'checks'?)"));
  EXPECT_EQ(bad(R"({"limit":"login"})"),
            problem(400, "Bad Request", R"(the member \"key\" is missing)"));
  EXPECT_EQ(bad(R"({"limit":"login","key":1})"),
            problem(400, "Bad Request", R"(the member \"key\" must be a string)"));
  const std::string range =
      R"(the member \"cost\" must be an integer from 0 to 9223372036854775807)";
  for (const std::string cost :
       {"-1", "-1.0", "1.5", "1e300", "\"1\"", "null", "9223372036854775808"}) {
    EXPECT_EQ(bad(kBob + ",\"cost\":" + cost + "}"), problem(400, "Bad Request", range)) << cost;
  }
  EXPECT_EQ(bad("[]"), problem(400, "Bad Request", "there must be a JSON object"));
  EXPECT_EQ(bad(R"({"limit" "login"})"),
            problem(400, "Bad Request", "the body is no JSON from byte 9 on", ",\"offset\":9"));
  EXPECT_THAT(bad("{} {}"), HasSubstr("no JSON"));
  EXPECT_THAT(bad(""), HasSubstr("no JSON"));
  EXPECT_THAT(bad("{\"limit\":\"\xff\"}"), HasSubstr("no JSON"));
  EXPECT_THAT(bad("[[[[[[]]]]]]"), HasSubstr("nested too deeply"));
  EXPECT_EQ(
      bad(R"({"limit":"login","key":"a","k\u0065y":"b"})"),
      problem(400, "Bad Request", R"(the member \"key\" is there twice in one object of the body)",
              ",\"offset\":36"));
  EXPECT_THAT(
      bad(R"({"checks":[{"limit":"login","key":"a"},{"limit":"login","key":"a","key":"a"}]})"),
      HasSubstr(R"(the member \"key\" is there twice)"));
  EXPECT_THAT(bad(R"({"limit":"login","key":"a","limit":"api"})"), HasSubstr("there twice"));
  std::string many = "{\"limit\":\"login\"";
  for (int i = 0; i < 16; ++i) many += ",\"m" + std::to_string(i) + "\":1";
  EXPECT_THAT(bad(many + "}"), HasSubstr("more than 16 members"));
  const auto list = [](int elements, const std::string& element) {
    std::string text = "[" + element;
    for (int i = 1; i < elements; ++i) text += "," + element;
    return text + "]";
  };
  EXPECT_THAT(bad(list(32'767, "1")), HasSubstr("must be a JSON object"));
  for (const std::string& values :
       {list(32'769, "1"), list(4, list(10'000, "1")),
        "{\"checks\":" + list(10'000, R"({"a":1,"b":2,"c":3})") + "}"}) {
    EXPECT_THAT(bad(values), HasSubstr("more than 32768 values"));
  }
  EXPECT_THAT(bad("{\"limit\":\"login\",\"key\":\"" + std::string(65'537, 'k') + "\"}"),
              HasSubstr("more than 65536 bytes"));
}

TEST_F(EndpointsTest, TakesJsonAlone) {
  const std::string head = "POST /v1/check HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n";
  EXPECT_EQ(connection.ask_one(head + "\r\n{}").status, 415);
  EXPECT_EQ(connection.ask_one(head + "Content-Type: text/plain\r\n\r\n{}").status, 415);
  EXPECT_EQ(
      connection.ask_one(head + "Content-Type: Application/JSON ; charset=utf-8\r\n\r\n{}").status,
      400);
  const std::string json = "Content-Type: application/json\r\n";
  EXPECT_THAT(connection.ask_one(head + json + "content-type: text/plain\r\n\r\n{}").body,
              HasSubstr(R"(the header \"Content-Type\" is there twice)"));
}

TEST_F(EndpointsTest, NamesWhatIsWrongWithALimit) {
  EXPECT_EQ(bad(R"({"limit":"logn","key":"a"})"),
            problem(404, "Not Found", "no limit is named 'logn' (did you mean 'login'?)"));
  const Reply reply = ask("/v1/check", R"({"limit":"token_bucket 1/0s","key":"a"})");
  EXPECT_EQ(reply.status, 400);
  EXPECT_THAT(reply.body, HasSubstr("\"offset\":15}"));
  EXPECT_EQ(ask("/v1/check", R"({"limit":"jobs","key":"a"})").body,
            problem(400, "Bad Request",
                    "'jobs' lends permits: /v1/permits/acquire takes one, and "
                    "/v1/permits/release gives it back"));
  EXPECT_EQ(ask("/v1/permits/acquire", R"({"limit":"login","key":"a"})").status, 400);
  EXPECT_EQ(ask("/v1/check", R"({"limit":"fixed_window 2/1h","key":"a"})").status, 200);
  store->refuses_spaces = true;
  EXPECT_EQ(ask("/v1/check", R"({"limit":"fixed_window 3/1h","key":"a"})").status, 503);
}

TEST_F(EndpointsTest, TheSystemFailsForOneOfSeveral) {
  store->breaks = broken_system();
  EXPECT_EQ(
      members("/v1/check", R"({"checks":[{"limit":"login","key":"a"},)"
                           R"({"limit":"fixed_window 3/1h","key":"a"}]})"),
      "\"results\":[{" + decision("true", 5, 4, "0", 200) + "}," +
          problem(503, "Service Unavailable", "checks[1]: there is none: Input/output error") +
          "]");
}

TEST_F(EndpointsTest, ChecksSeveral) {
  EXPECT_EQ(members("/v1/check", R"({"checks":[]})"), R"("results":[])");
  EXPECT_EQ(members("/v1/check", R"({"checks":[{"limit":"login","key":"a","cost":2},)"
                                 R"({"limit":"nope","key":"a"},{"limit":"login","key":"a"},7]})"),
            "\"results\":[{" + decision("true", 5, 3, "0", 400) + "}," +
                problem(404, "Not Found", "checks[1]: no limit is named 'nope'") + ",{" +
                decision("true", 5, 2, "0", 600) + "}," +
                problem(400, "Bad Request", "checks[3]: there must be a JSON object") + "]");
  std::string checks;
  for (int i = 0; i < 1000; ++i) checks += R"(,{"limit":"api","key":"many"})";
  EXPECT_EQ(ask("/v1/check", "{\"checks\":[7" + checks + "]}").status, 400);
  EXPECT_THAT(bad(R"({"checks":[],"limit":"login"})"), HasSubstr(R"(\"limit\" is unknown)"));
}

TEST_F(EndpointsTest, ChecksAllOrNothing) {
  const std::string two = R"({"checks":[{"limit":"login","key":"a","cost":3},)"
                          R"({"limit":"api","key":"b"}],"all":true})";
  const Reply reply = ask("/v1/check", two);
  EXPECT_EQ(reply.status, 200);
  EXPECT_THAT(reply.body, HasSubstr("\"parts\":[{" + decision("true", 5, 2, "0", 600) + "},{"));
  EXPECT_THAT(reply.body, HasSubstr("],\"binding\":0}"));
  EXPECT_THAT(reply.header("RateLimit-Policy"), HasSubstr("\"login\";q=5;w=1, \"api\";q=100"));
  const Reply denied = ask("/v1/check", two);
  EXPECT_EQ(denied.status, 429);
  EXPECT_THAT(denied.body,
              HasSubstr("\"remaining\":99,"));  // Of the other part: not charged again.
  EXPECT_THAT(bad(R"({"checks":[],"all":true})"), HasSubstr("1 to 16 checks"));
  const auto all_of = [](int count) {
    std::string checks;
    for (int i = 0; i < count; ++i) {
      checks += R"(,{"limit":"api","key":")" + std::to_string(i) + "\"}";
    }
    return "{\"all\":true,\"checks\":[" + checks.substr(1) + "]}";
  };
  EXPECT_EQ(ask("/v1/check", all_of(16)).status, 200);
  EXPECT_THAT(bad(all_of(17)), HasSubstr("1 to 16 checks"));
  EXPECT_THAT(
      bad(R"({"checks":[{"limit":"login","key":"a"},{"limit":"nope","key":"a"}],"all":true})"),
      HasSubstr("checks[1]: no limit is named 'nope'"));
  const Reply twice = ask("/v1/check", R"({"checks":[{"limit":"api","key":"a"},)"
                                       R"({"limit":"api","key":"a"}],"all":true})");
  EXPECT_EQ(twice.status, 400) << twice.body;
}

TEST_F(EndpointsTest, ReservesAndCommits) {
  const std::string reserved = members("/v1/reserve", kBob + R"(,"cost":3})");
  EXPECT_THAT(reserved, HasSubstr(decision("true", 5, 2, "0", 600)));
  EXPECT_THAT(reserved, HasSubstr(",\"expires_ms\":60000"));
  EXPECT_EQ(members("/v1/commit", commit_of(reserved, "1.0")), decision("true", 5, 4, "0", 200));
  EXPECT_EQ(ask("/v1/commit", commit_of(reserved, "1")).status, 409);
  std::string elsewhere = commit_of(reserved, "1");
  elsewhere[16] = elsewhere[16] == 'a' ? 'b' : 'a';
  EXPECT_EQ(ask("/v1/commit", elsewhere).status, 421);
  EXPECT_EQ(ask("/v1/commit", R"({"reservation":"x","cost":1})").status, 404);
  // More than was reserved, and nothing at all.
  for (const std::string cost : {"3", "0"}) {
    const std::string one = members("/v1/reserve", kBob + "}");
    EXPECT_EQ(members("/v1/commit", commit_of(one, cost)), decision("true", 5, 1, "0", 800));
  }
  // With patience the key may go ahead later.
  EXPECT_THAT(members("/v1/reserve", kBob + R"(,"cost":2,"patience_ms":200})"),
              HasSubstr("\"delay_ms\":200"));
  const std::string denied = members("/v1/reserve", kBob + "}", 429);
  EXPECT_EQ(value_of(denied, "reservation"), "(none)");
}

TEST_F(EndpointsTest, LendsPermits) {
  const std::string job = R"({"limit":"jobs","key":"gpu")";
  const std::string granted = members("/v1/permits/acquire", job + "}");
  EXPECT_THAT(granted, HasSubstr("\"lease_ms\":30000"));
  EXPECT_THAT(members("/v1/permits/acquire", job + "}", 429),
              HasSubstr("\"retry_after_ms\":30000"));
  const std::string held = job + R"(,"permit":")" + value_of(granted, "permit") + "\"}";
  for (const std::string path : {"/v1/permits/renew", "/v1/permits/release"}) {
    EXPECT_EQ(members(path, held), granted);
  }
  for (const std::string path : {"/v1/permits/renew", "/v1/permits/release"}) {
    EXPECT_EQ(ask(path, held).status, 410);
    const Reply wrong = ask(path, job + R"(,"permit":"x"})");
    EXPECT_EQ(wrong.status, 400);
    EXPECT_THAT(wrong.body, HasSubstr("is no permit"));
  }
}

TEST_F(EndpointsTest, AReservationThatIsNotCommittedInTimeStaysSpent) {
  const std::string daily = R"({"limit":"fixed_window 5/1d","key":"bob")";
  const std::string reserved = members("/v1/reserve", daily + R"(,"cost":3})");
  *store->clock += Reservations::kExpiresNs + kSecondNs;
  const Reply late = ask("/v1/commit", commit_of(reserved, "0"));
  EXPECT_EQ(late.status, 404);
  EXPECT_THAT(late.body, HasSubstr("one that is not committed in time stays spent"));
  EXPECT_THAT(members("/v1/peek", daily + "}"), HasSubstr("\"remaining\":2,"));
}

// One that costs nothing is always admitted, and would hold its key as well.
TEST_F(EndpointsTest, ReservationsHoldABoundedNumberOfBytes) {
  const std::string reserve =
      R"({"limit":"login","cost":0,"key":")" + std::string(Members::kMaxTextBytes, 'k') + "\"}";
  constexpr std::size_t kMost = Reservations::kMostKeyBytes / Members::kMaxTextBytes;
  std::string first;
  for (std::size_t i = 0; i < kMost; ++i) {
    const Reply reply = ask("/v1/reserve", reserve);
    ASSERT_EQ(reply.status, 200) << i;
    if (i == 0) first = reply.body;
  }
  const Reply full = ask("/v1/reserve", reserve);
  EXPECT_EQ(full.status, 503);
  EXPECT_EQ(full.header("Retry-After"), "1");
  EXPECT_THAT(full.body, HasSubstr("holds at most 100000, with keys of 64 MiB"));
  EXPECT_EQ(ask("/v1/commit", commit_of(first, "0")).status, 200);
  EXPECT_EQ(ask("/v1/reserve", reserve).status, 200);
  EXPECT_EQ(ask("/v1/reserve", reserve).status, 503);
}

// Others may have taken units since. With the role `check` alone, a client could return them.
TEST_F(EndpointsTest, ACommitReturnsNoUnitsThatDoNotCountAnyMore) {
  const auto reserve = [&] {
    return commit_of(members("/v1/reserve", kBob + R"(,"cost":5})"), "0");
  };
  const std::string over = reserve();
  *store->clock += kSecondNs;
  const std::string in_time = reserve();
  EXPECT_EQ(members("/v1/commit", over), decision("true", 5, 0, "0", 1000));
  EXPECT_EQ(members("/v1/commit", in_time), decision("true", 5, 5, "0", 0));
  // The store decided before the answer was there.
  store->on_the_way = [&] { *store->clock += kSecondNs / 2; };
  const std::string slow = reserve();
  *store->clock += kSecondNs / 2;
  EXPECT_EQ(members("/v1/check", kBob + R"(,"cost":5})"), decision("true", 5, 0, "0", 1000));
  EXPECT_EQ(members("/v1/commit", slow), decision("true", 5, 0, "0", 1000));
}

TEST_F(EndpointsTest, ACommitReturnsNoUnitsThatAResetHasForgotten) {
  const std::string before = members("/v1/reserve", kBob + R"(,"cost":5})");
  ASSERT_EQ(ask("/v1/reset", kBob + "}").status, 204);
  const std::string after = members("/v1/reserve", kBob + R"(,"cost":5})");
  EXPECT_EQ(members("/v1/commit", commit_of(before, "0")), decision("true", 5, 0, "0", 1000));
  EXPECT_EQ(members("/v1/commit", commit_of(after, "0")), decision("true", 5, 5, "0", 0));
}

TEST_F(EndpointsTest, ACommitReturnsToEachPartWhatItCounts) {
  const std::string body =
      R"({"limit":"fixed_window 5/1s & fixed_window 9/1h","key":"bob","cost":)";
  const std::vector<Reply> replies =
      connection.ask(post("/v1/check", kBob + "}") + post("/v1/reserve", body + "5}"));
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_THAT(replies[1].body, HasSubstr(R"("remaining":0,)"));
  *store->clock += kSecondNs;
  EXPECT_EQ(ask("/v1/check", body + "4}").status, 200);
  EXPECT_THAT(members("/v1/commit", commit_of(replies[1].body, "1")),
              HasSubstr(R"("limit":5,"remaining":1,)"));
  *store->clock += kSecondNs;
  EXPECT_THAT(members("/v1/peek", body.substr(0, body.size() - 8) + "}"),
              HasSubstr(R"("limit":9,"remaining":4,)"));
}

// Others may have taken units since, which are not those of the reservation.
TEST_F(EndpointsTest, ACommitReturnsNoUnitsThatAFullStoreDidNotRecord) {
  const auto commit = [&](const std::string& cost) {
    store->says = [](const Request&) { return Decision{.allowed = true, .source = Source::kFull}; };
    const std::string reserved = members("/v1/reserve", kBob + R"(,"cost":3})");
    store->says = {};
    return members("/v1/commit", commit_of(reserved, cost));
  };
  EXPECT_EQ(commit("1"), decision("true", 5, 4, "0", 200)) << "what it cost is recorded after all";
  EXPECT_EQ(commit("0"), decision("true", 5, 4, "0", 200));
}

TEST_F(EndpointsTest, ACommitThatTheStoreDidNotCarryOutCanBeRepeated) {
  const auto reserve = [&](const std::string& key) {
    return members("/v1/reserve", R"({"limit":"login","key":")" + key + R"(","cost":3})");
  };
  const std::string lost = reserve("bob");
  const std::string by_policy = reserve("policy");
  const std::string by_local = reserve("local");
  store->loses = [](const Request& request) { return request.key == "bob"; };
  EXPECT_EQ(ask("/v1/commit", commit_of(lost, "1")).status, 503);
  EXPECT_EQ(ask("/v1/commit", commit_of(lost, "4")).status, 503);
  store->loses = {};
  EXPECT_EQ(members("/v1/commit", commit_of(lost, "1")), decision("true", 5, 4, "0", 200));
  EXPECT_EQ(ask("/v1/commit", commit_of(lost, "1")).status, 409);
  // A failure policy changes no key. Local states do, and the store is charged later.
  store->says = [](const Request& request) -> std::optional<Decision> {
    return Decision{.allowed = true,
                    .source = request.key == "policy" ? Source::kPolicy : Source::kLocal};
  };
  EXPECT_THAT(ask("/v1/commit", commit_of(by_policy, "4")).body,
              HasSubstr("has not confirmed that it has settled the reservation"));
  EXPECT_EQ(ask("/v1/commit", commit_of(by_policy, "4")).status, 503);
  EXPECT_THAT(members("/v1/commit", commit_of(by_local, "4")), HasSubstr(R"("source":"local")"));
  EXPECT_EQ(ask("/v1/commit", commit_of(by_local, "4")).status, 409);
}

/// A server whose limits change between a reservation and its commit.
class ReloadedEndpointsTest : public testing::Test {
 protected:
  static ServedLimits served(const std::string& expression,
                             std::vector<LimitOverride> overrides = {},
                             const std::string& name = "login") {
    NamedLimit limit(Limit(expression, name));
    limit.overrides = std::move(overrides);
    ServedLimits all;
    all.named = {limit};
    return all;
  }
  void reload(const ServedLimits& limits) { context->replace_limits(limits); }
  Reply ask(const std::string& path, const std::string& body) {
    return connection.ask_one(post(path, body));
  }
  std::string reserve_three() { return ask("/v1/reserve", kBob + R"(,"cost":3})").body; }
  Reply commit(const std::string& reserved, const std::string& cost) {
    return ask("/v1/commit", commit_of(reserved, cost));
  }

  const ServedLimits bucket = served("token_bucket 5/1s");
  const std::shared_ptr<ServerContext> context =
      std::make_shared<ServerContext>(still_store(), bucket, 1);
  TestConnection connection{handlers(context)};
};

// What the store has charged is settled there, whatever override its key has got since.
TEST_F(ReloadedEndpointsTest, CommitUnderAnOverrideThatDoesNotAskTheStore) {
  using Kind = LimitOverride::Kind;
  const auto with_override = [](Kind kind, const std::optional<Limit>& limit = std::nullopt) {
    return served("token_bucket 5/1s", {{"bob", kind, limit}});
  };
  for (const Kind kind : {Kind::kDeny, Kind::kAllowAll}) {
    for (const auto& [cost, remaining] : {std::pair{"1", 4}, std::pair{"4", 1}}) {
      reload(bucket);
      ask("/v1/reset", kBob + "}");
      const std::string reserved = reserve_three();
      reload(with_override(kind));
      const Reply settled = commit(reserved, cost);
      EXPECT_EQ(settled.status, 200) << settled.body;
      EXPECT_THAT(settled.body, HasSubstr(R"("limit":5,"remaining":)" + std::to_string(remaining)));
      EXPECT_THAT(settled.body, HasSubstr(R"("source":"store")"));
    }
  }
  // One that the override has granted is no matter of the store, also after the override.
  const std::string free = reserve_three();
  reload(bucket);
  EXPECT_THAT(commit(free, "9").body, HasSubstr(R"("source":"override")"));
  // With a limit of another kind nothing happens, and the reservation stays for the former one.
  ask("/v1/reset", kBob + "}");
  const std::string reserved = reserve_three();
  reload(with_override(Kind::kLimit, Limit("fixed_window 9/1h", "login")));
  const Reply refused = commit(reserved, "1");
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("of another kind, of which nothing is reserved"));
  reload(bucket);
  EXPECT_THAT(commit(reserved, "1").body, HasSubstr(R"("limit":5,"remaining":4)"));
}

// The units were forgotten with the first reload. The second one brings a limit like that which
// granted them, with keys that are fresh again.
TEST_F(ReloadedEndpointsTest, CommitNothingOnceTheKeyHasStartedFresh) {
  const std::string reserved = reserve_three();
  reload(served("fixed_window 5/1s"));
  reload(bucket);
  ask("/v1/check", kBob + R"(,"cost":4})");
  const Reply refused = commit(reserved, "0");
  EXPECT_EQ(refused.status, 404);
  EXPECT_THAT(refused.body, HasSubstr("the key has started fresh since"));
  EXPECT_THAT(ask("/v1/peek", kBob + "}").body, HasSubstr(R"("remaining":1)"));
}

TEST_F(ReloadedEndpointsTest, CommitAReservationOfALimitThatIsGone) {
  for (const std::string name : {"login", "token_bucket"}) {
    reload(served("token_bucket 5/1s", {}, name));
    const std::string reserved =
        ask("/v1/reserve", R"({"limit":")" + name + R"(","key":"k"})").body;
    reload({});
    EXPECT_THAT(commit(reserved, "3").body, HasSubstr(R"("limit":5,"remaining":2)")) << name;
  }
}

TEST_F(EndpointsTest, ListsTheLimits) {
  ask("/v1/check", kBob + R"(,"cost":5})");
  ask("/v1/check", kBob + "}");
  const std::vector<Reply> replies =
      connection.ask(post("/v1/check", R"({"limit":"api","key":"a"})") + get("/v1/limits"));
  ASSERT_EQ(replies.size(), 2U);
  EXPECT_EQ(
      replies[1].body,
      R"({"limits":[{"name":"login","expression":"token_bucket 5/1s","allowed":1,"denied":1},)"
      R"({"name":"api","expression":"fixed_window 100/1h","allowed":1,"denied":0},)"
      R"({"name":"jobs","expression":"concurrency 1 lease=30s","allowed":0,"denied":0},)"
      R"-({"name":"(other)","expression":"","allowed":0,"denied":0}]})-");
}

// Any client may ask, and the text of an error may name machines.
TEST_F(EndpointsTest, SaysThatTheStoreIsLostButNotWhy) {
  store->health = {.state = StoreHealth::State::kDown, .reason = "10.0.0.7 refused"};
  const Reply reply = connection.ask_one(get("/readyz"));
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.body, R"({"status":"degraded"})");
}

TEST_F(EndpointsTest, SaysThatAChangeMayNotHaveReachedTheStore) {
  decide_locally(*store, {.allowed = true, .remaining = 1});
  EXPECT_EQ(ask("/v1/check", R"({"limit":"login","key":"local"})").status, 200);
  const Reply reply = ask("/v1/reset", R"({"limit":"login","key":"local"})");
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.body, HasSubstr("it may or may not have changed the key"));
}

TEST_F(EndpointsTest, TellsTheKeysDeniedMost) {
  for (int i = 0; i < 7; ++i) ask("/v1/check", kBob + "}");
  ask("/v1/check", R"({"limit":"login","key":"a\"\n","cost":6})");
  EXPECT_EQ(connection.ask_one(get("/v1/top?limit=login")).body,
            R"({"limit":"login","keys":[{"key":"bob","denied":2,"error":0},)"
            R"({"key":"a\"\u000a","denied":1,"error":0}]})");
  EXPECT_EQ(connection.ask_one(get("/v1/top?limit=api&n=3")).body, R"({"limit":"api","keys":[]})");
  EXPECT_EQ(connection.ask_one(get("/v1/top?limit=lgoin")).body,
            problem(404, "Not Found", "no limit is named 'lgoin' (did you mean 'login'?)"));
  EXPECT_THAT(connection.ask_one(get("/v1/top")).body,
              HasSubstr(R"("status":400,"detail":"the parameter limit is missing")"));
  for (const std::string n : {"0", "1001", "x", "-1"}) {
    EXPECT_EQ(connection.ask_one(get("/v1/top?limit=api&n=" + n)).status, 400) << n;
  }
  const Reply twice = connection.ask_one(get("/v1/top?limit=api&n=3&n=3"));
  EXPECT_EQ(twice.status, 400);
  EXPECT_THAT(twice.body, HasSubstr(R"(the parameter \"n\" is there twice)"));
}

}  // namespace
}  // namespace sluice::http

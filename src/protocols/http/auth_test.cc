#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "testing/http_connection.h"
#include "testing/served_store.h"

namespace sluice::http {
namespace {

using testing::HasSubstr;

class AuthTest : public ConnectionTest<still_store> {
 protected:
  Reply ask(const std::string& query, const std::string& headers = {}) {
    return connection.ask_one(get("/auth?" + query, headers));
  }
  /// The key of the request to the store.
  std::string key_of(const std::string& target, const std::string& headers = {}) {
    store->asked.clear();
    const Reply reply = connection.ask_one(get(target, headers));
    return store->asked.empty() ? reply.body : store->asked[0].key;
  }
};

TEST_F(AuthTest, AdmitsAndDenies) {
  const Reply admitted = ask("limit=login&cost=5");
  EXPECT_EQ(admitted.status, 204);
  EXPECT_EQ(admitted.header("RateLimit"), "\"login\";r=0;t=1");
  const Reply denied = ask("limit=login");
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(denied.header("Retry-After"), "1");
  EXPECT_EQ(denied.header("Content-Type"), "application/problem+json");
  EXPECT_EQ(denied.body,
            R"({"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",)"
            R"("title":"Quota exceeded","status":429,)"
            R"("detail":"too many requests: try again when Retry-After has passed",)"
            R"("violated-policies":["login"]})");
  EXPECT_EQ(ask("limit=login&deny_status=403").status, 403);
  EXPECT_EQ(ask("limit=api&allow_status=200").status, 200);
  EXPECT_EQ(ask("limit=token_bucket+1/1h").status, 204);
  EXPECT_EQ(ask("limit=token_bucket%201/1h").status, 429);
}

TEST_F(AuthTest, HasABodyWhereTheClientReadsOne) {
  ask("limit=login&cost=5");
  const auto body = [&](const std::string& accept) { return ask("limit=login", accept).body; };
  EXPECT_EQ(body("Accept: text/html\r\n"), "");
  EXPECT_EQ(ask("limit=login", "Accept: text/html\r\n").header("Content-Length"), "0");
  EXPECT_NE(body("Accept: text/html, application/problem+json\r\n"), "");
  EXPECT_NE(body("Accept: */*\r\n"), "");
}

TEST_F(AuthTest, AsksSeveralLimitsTogether) {
  const Reply admitted = ask("limit=login&limit=api&cost=3");
  EXPECT_EQ(admitted.status, 204);
  EXPECT_EQ(admitted.header("RateLimit-Policy"), "\"login\";q=5;w=1, \"api\";q=100;w=3600");
  const Reply denied = ask("limit=api&limit=login&cost=3");
  EXPECT_EQ(denied.status, 429);
  EXPECT_THAT(denied.body, HasSubstr(R"("violated-policies":["login"])"));
  EXPECT_THAT(denied.header("RateLimit"), HasSubstr("\"api\";r=97"));
  EXPECT_EQ(ask("limit=api&limit=nope").status, 404);
  std::string many = "limit=api";
  for (int i = 0; i < 16; ++i) many += "&limit=api";
  EXPECT_EQ(ask(many).status, 400);
}

// Of a limit that joins parts, each has a member: after the t of one with r=0, it admits again.
TEST_F(AuthTest, TellsOfEachPartOfALimit) {
  const std::string query = "limit=fixed_window+2/1m+%26+fixed_window+3/1h&cost=";
  const std::string policies = R"("fixed_window 2/1m";q=2;w=60, "fixed_window 3/1h";q=3;w=3600)";
  const Reply admitted = ask(query + "2");
  EXPECT_EQ(admitted.header("RateLimit-Policy"), policies);
  EXPECT_EQ(admitted.header("RateLimit"),
            R"("fixed_window 2/1m";r=0;t=40, "fixed_window 3/1h";r=1;t=1200)");
  const Reply denied = ask(query + "1");
  EXPECT_EQ(denied.header("RateLimit-Policy"), policies);
  EXPECT_EQ(denied.header("RateLimit"),
            R"("fixed_window 2/1m";r=0;t=40, "fixed_window 3/1h";r=1;t=1200)");
  EXPECT_EQ(denied.header("Retry-After"), "40");
  EXPECT_THAT(denied.body, HasSubstr(R"("violated-policies":["fixed_window 2/1m"])"));
  const std::string body = R"({"limit":"fixed_window 2/1m & fixed_window 3/1h","key":"127.0.0.1"})";
  const std::vector<Reply> both = connection.ask(post("/v1/check", body) + get("/healthz"));
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0].header("RateLimit"), denied.header("RateLimit"));
  EXPECT_THAT(both[0].body, HasSubstr(R"("allowed":false,"limit":2,"remaining":0,)"));
}

// A remembered denial does not know them, and may be repeated without asking the store.
TEST_F(AuthTest, TellsOfTheBindingPartWhereTheDenialIsRemembered) {
  store->says = [](const Request& request) -> std::optional<Decision> {
    if (!request.parts_if_allowed) return std::nullopt;
    return Decision{.source = Source::kCache,
                    .binding = 1,
                    .limit = 3,
                    .retry_after = std::chrono::minutes(5),
                    .reset_after = std::chrono::minutes(5)};
  };
  const std::string limit = R"({"limit":"fixed_window 2/1m & fixed_window 3/1h","key":"a"})";
  for (const std::string& request : {get("/auth?limit=fixed_window+2/1m+%26+fixed_window+3/1h"),
                                     post("/v1/check", limit), post("/v1/reserve", limit)}) {
    const Reply denied = connection.ask_one(request);
    EXPECT_EQ(denied.status, 429) << request;
    EXPECT_EQ(denied.header("RateLimit"), R"("fixed_window 3/1h";r=0;t=300)") << request;
  }
}

TEST_F(AuthTest, MakesTheKeyFromTheRequest) {
  const std::string forwarded =
      "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Method: DELETE\r\nX-Forwarded-Host: "
      "shop.example\r\nX-Forwarded-Uri: /a%20b?user=a%2Fb&x\r\nX-Api-Key: secret\r\n";
  EXPECT_EQ(key_of("/auth?limit=api", forwarded), "203.0.113.7");
  EXPECT_EQ(key_of("/auth?limit=api&key={ip}", forwarded), "203.0.113.7");
  EXPECT_EQ(key_of("/auth?limit=api&key=%7Bip%7D", forwarded), "203.0.113.7");
  EXPECT_EQ(key_of("/auth?limit=api&key={header:x-api-key}", forwarded), "secret");
  EXPECT_EQ(key_of("/auth?limit=api&key={query:user}", forwarded), "a/b");
  EXPECT_EQ(key_of("/auth?limit=api&key={method}+{host}{path}", forwarded),
            "DELETE shop.example/a%20b");
  EXPECT_EQ(key_of("/auth?limit=api&key={header:none}{query:none}", forwarded), "");
  EXPECT_EQ(key_of("/auth?limit=api&key={{ip}}", forwarded), "{ip}");
  EXPECT_EQ(key_of("/auth?limit=api&key=plain", forwarded), "plain");
  const std::string original =
      "X-Original-Method: PUT\r\nX-Original-Host: h\r\nX-Original-URL: https://h/p?q=1\r\n";
  EXPECT_EQ(key_of("/auth?limit=api&key={method}{host}{path}{query:q}", original), "PUTh/p1");
  EXPECT_EQ(key_of("/auth?limit=api&key={host}", "X-Original-URL: https://H:80/p\r\n"), "h");
  for (const std::string name : {"X-Original-URL: /", "X-Original-Uri: ", "X-Forwarded-Uri: "}) {
    EXPECT_EQ(key_of("/auth?limit=api&key={host}", name + "http://h/p\r\n"), "localhost") << name;
  }
  EXPECT_EQ(key_of("/auth?limit=api&key={host}{path}{query:q}",
                   "X-Forwarded-Host: Shop.example.:8000\r\nX-Forwarded-Uri: //x/../%61?q=B\r\n"),
            "shop.example/aB");
  for (const std::string name : {"X-Forwarded-Method: PUT", "X-Forwarded-Host: h",
                                 "X-Forwarded-Uri: /p?q=1", "X-Forwarded-Host: "}) {
    const std::string of_client =
        "X-Original-Method: x\r\nX-Original-Host: x\r\nX-Original-Uri: x"
        "\r\nX-Original-URL: x\r\n" +
        name + "\r\n";
    EXPECT_THAT(key_of("/auth?limit=api&key={method}+{host}+{path}", of_client),
                testing::Not(HasSubstr("x")))
        << name;
  }
  EXPECT_EQ(key_of("/auth?limit=api&key={method}+{host}+{path}"), "GET localhost /auth");
  EXPECT_EQ(key_of("/auth?limit=api"), "127.0.0.1");
}

// The server behind the proxy may read the other one.
TEST_F(AuthTest, MakesNoKeyFromAParameterThatIsThereTwice) {
  const std::string target = "/auth?limit=api&key={query:user}";
  const auto reply_to = [&](const std::string& original) {
    return connection.ask_one(get(target, "X-Forwarded-Uri: " + original + "\r\n"));
  };
  const Reply twice = reply_to("/a?user=1&x=2&us%65r=1");
  EXPECT_EQ(twice.status, 400);
  EXPECT_THAT(twice.body, HasSubstr(R"(the parameter \"user\" is there twice)"));
  EXPECT_EQ(reply_to("/a?x=1&user=1&x=2").status, 204);
}

TEST_F(AuthTest, MakesNoKeyFromAHeaderThatIsThereTwice) {
  const std::string target = "/auth?limit=api&key={header:X-Api-Key}";
  const Reply twice = connection.ask_one(get(target, "X-Api-Key: a\r\nA: 1\r\nx-api-key: b\r\n"));
  EXPECT_EQ(twice.status, 400);
  EXPECT_THAT(twice.body, HasSubstr(R"(the header \"X-Api-Key\" is there twice)"));
  EXPECT_TRUE(store->asked.empty());
  EXPECT_EQ(key_of(target, "A: 1\r\nX-Api-Key: a\r\nA: 2\r\n"), "a");
}

// One is of the proxy's client, if the proxy adds its own and leaves that.
TEST_F(AuthTest, MakesNoKeyFromAHeaderOfProxiesThatIsThereTwice) {
  for (const std::string kind : {"X-Forwarded-", "X-Original-"}) {
    for (const std::string name : {"Method", "Host", "Uri"}) {
      const std::string headers = kind + name + ": /a\r\n" + kind + name + ": /b\r\n";
      const Reply reply =
          connection.ask_one(get("/auth?limit=api&key={method}{host}{path}", headers));
      EXPECT_EQ(reply.status, 400) << headers;
      EXPECT_THAT(reply.body, HasSubstr(kind + name + "\\\" is there twice"));
    }
  }
  EXPECT_TRUE(store->asked.empty());
}

TEST_F(AuthTest, ReadsOnlyTheParameterThatTheKeyNames) {
  const std::string target = "/auth?limit=api&key={query:user}";
  const auto original = [](const std::string& uri) { return "X-Forwarded-Uri: " + uri + "\r\n"; };
  EXPECT_EQ(key_of(target, original("/a?50%off=1&user=7&%=2&x=%zz")), "7");
  const Reply wrong = connection.ask_one(get(target, original("/a?user=%zz")));
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.body, HasSubstr("not followed by two hexadecimal digits"));
}

TEST_F(AuthTest, BelievesProxiesOnly) {
  AcceptedStream stream = TestConnection::accepted();
  stream.peer = "198.51.100.1";
  stream.is_loopback = false;
  TestConnection stranger(make, stream);
  const std::string forged =
      "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Uri: /x\r\nX-Forwarded-Host: x\r\n"
      "X-Forwarded-Method: X\r\n";
  stranger.send(get("/auth?limit=api&key={ip}+{method}+{host}+{path}", forged));
  EXPECT_EQ(store->asked.at(0).key, "198.51.100.1 GET localhost /auth");
  stream.peer = "unix:";
  TestConnection(make, stream).send(get("/auth?limit=api&key={ip}+{path}", forged));
  EXPECT_EQ(store->asked.at(1).key, "203.0.113.7 /x");
}

/// A limit with a key template and overrides in the file.
ServedLimits keyed_limits() {
  NamedLimit keyed(Limit("fixed_window 9/1h", "keyed"));
  keyed.key = "{header:X-Key}";
  keyed.overrides.push_back({.key = "banned", .kind = LimitOverride::Kind::kDeny});
  keyed.overrides.push_back({.key = "free", .kind = LimitOverride::Kind::kAllowAll});
  ServedLimits limits(std::vector<Limit>{Limit("fixed_window 5/1h", "api")});
  limits.named.push_back(keyed);
  return limits;
}

class KeyedAuthTest : public AuthTest {
 protected:
  std::shared_ptr<ServerContext> context =
      std::make_shared<ServerContext>(store, keyed_limits(), 1);
  TestConnection keyed{handlers(context)};
};

TEST_F(KeyedAuthTest, TakesTheKeyFromTheFileUnlessTheRequestSays) {
  const std::string headers = "X-Key: a\r\nX-Forwarded-For: 203.0.113.7\r\n";
  keyed.send(get("/auth?limit=keyed", headers) + get("/auth?limit=keyed&key=b", headers) +
             get("/auth/keyed/path", headers) + get("/auth?limit=api&limit=keyed", headers) +
             get("/auth?limit=keyed&key=", headers));
  std::vector<std::string> keys;
  for (const auto& asked : store->asked) keys.push_back(asked.key);
  EXPECT_THAT(keys, testing::ElementsAre("a", "b", "a", "203.0.113.7", "a", ""));
}

// The present rules also apply to open connections.
TEST_F(KeyedAuthTest, BelievesTheProxiesOfTheFile) {
  TestConnection proxy(handlers(context), {.wake = [] {}, .peer = "10.1.2.3"});
  const std::string forwarded = get("/auth?limit=api&key={ip}+{method}",
                                    "X-Forwarded-For: 203.0.113.7\r\nX-Forwarded-Method: PUT\r\n");
  const auto key_from = [&](TestConnection& connection) {
    store->asked.clear();
    connection.send(forwarded);
    return store->asked.at(0).key;
  };
  EXPECT_EQ(key_from(proxy), "10.1.2.3 GET");
  EXPECT_EQ(key_from(keyed), "203.0.113.7 PUT");
  context->client_rules().replace(std::make_shared<const ClientRules>(
      ClientRules{.client_ip = ClientIp({.trusted_proxies = {"10.0.0.0/8"}})}));
  EXPECT_EQ(key_from(proxy), "203.0.113.7 PUT");
  EXPECT_EQ(key_from(keyed), "127.0.0.1 GET");
}

TEST_F(KeyedAuthTest, FollowsTheRulesOfTheFile) {
  const Reply denied = keyed.ask_one(get("/auth?limit=keyed", "X-Key: banned\r\n"));
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(denied.header("Cache-Control"), "no-store");
  EXPECT_EQ(denied.header("RateLimit"), "(none)");
  EXPECT_EQ(denied.header("Retry-After"), "(none)");
  const Reply admitted = keyed.ask_one(get("/auth?limit=keyed", "X-Key: free\r\n"));
  EXPECT_EQ(admitted.status, 204);
  EXPECT_EQ(admitted.header("RateLimit-Policy"), "(none)");
}

// The other limit admits, so its headers do not say that the request is denied.
TEST_F(KeyedAuthTest, ADenialByAnOverrideAmongSeveralLimitsIsNotCached) {
  const Reply denied = keyed.ask_one(get("/auth?limit=api&limit=keyed", "X-Key: banned\r\n"));
  EXPECT_EQ(denied.status, 429);
  EXPECT_EQ(denied.header("Cache-Control"), "no-store");
  EXPECT_EQ(denied.header("RateLimit-Policy"), "\"api\";q=5;w=3600");
  EXPECT_EQ(denied.header("Retry-After"), "(none)");
  // The other limit denies as well. Waiting for that does not help.
  keyed.ask_one(get("/auth?limit=api&cost=5"));
  const Reply both = keyed.ask_one(get("/auth?limit=api&limit=keyed", "X-Key: banned\r\n"));
  EXPECT_EQ(both.status, 429);
  EXPECT_EQ(both.header("Retry-After"), "(none)");
  EXPECT_EQ(both.head.find("no-store"), both.head.rfind("no-store"));
  EXPECT_EQ(both.header("Cache-Control"), "no-store");
}

TEST_F(AuthTest, DeniesWithoutWhatIsRequired) {
  const std::string query = "limit=api&key={header:X-Key}&require=";
  for (const std::string field :
       {"X-Key", "header:X-Key", "{header:X-Key}", "%7Bheader:X-Key%7D"}) {
    const Reply denied = ask(query + field);
    EXPECT_EQ(denied.status, 429) << field;
    EXPECT_THAT(denied.body, HasSubstr("the request has no {header:X-Key}"));
    EXPECT_EQ(denied.header("Cache-Control"), "no-store");
    EXPECT_EQ(ask(query + field, "X-Key: a\r\n").status, 204) << field;
  }
  EXPECT_EQ(ask(query + "query:user&deny_status=403").status, 403);
  const Reply bare = ask(query + "X-Key", "Accept: text/html\r\n");
  EXPECT_EQ(bare.status, 429);
  EXPECT_EQ(bare.body, "");
  EXPECT_EQ(bare.header("Cache-Control"), "no-store");
  EXPECT_EQ(ask("limit=nope&require=X-Key").status, 404);
  EXPECT_EQ(ask("limit=api&limit=nope&require=X-Key").status, 404);
  EXPECT_TRUE(store->asked.size() == 4);
}

TEST_F(AuthTest, NamesWhatIsWrong) {
  const auto bad = [&](const std::string& query) {
    const Reply reply = ask(query);
    EXPECT_EQ(reply.status, 400) << query;
    return reply.body;
  };
  EXPECT_THAT(bad(""), HasSubstr("the parameter limit is missing"));
  EXPECT_THAT(bad("limit=api&costs=1"),
              HasSubstr(R"(no parameter \"costs\" of /auth (did you mean 'cost'?))"));
  for (const std::string each :
       {"key=a", "cost=1", "deny_status=403", "allow_status=204", "headers=none", "require=ip"}) {
    const std::string name = each.substr(0, each.find('='));
    EXPECT_THAT(bad("limit=api&" + each + "&limit=login&" + each),
                HasSubstr("the parameter \\\"" + name + "\\\" is there twice"));
  }
  EXPECT_THAT(bad("limit=api&cost=-1"), HasSubstr("cost must be an integer"));
  EXPECT_THAT(bad("limit=api&cost=1x"), HasSubstr("cost must be an integer"));
  EXPECT_THAT(bad("limit=api&deny_status=200"), HasSubstr("deny_status must be 403 or 429"));
  EXPECT_THAT(bad("limit=api&allow_status=201"), HasSubstr("allow_status must be 200 or 204"));
  EXPECT_THAT(bad("limit=api&headers=x"), HasSubstr("no style of headers"));
  EXPECT_THAT(bad("limit=api&key={user}"), HasSubstr("no field {user}"));
  EXPECT_THAT(bad("limit=api&key={ip"), HasSubstr("brace without its other"));
  EXPECT_THAT(bad("limit=api&key=ip}"), HasSubstr("brace without its other"));
  EXPECT_THAT(bad("limit=api&key={header:}"), HasSubstr("no field {header:}"));
  for (const std::string name : {"X+Key", "X-Key+", "X(Key)", "%C3%A4"}) {
    EXPECT_THAT(bad("limit=api&key={header:" + name + "}"), HasSubstr("no header has the name"));
    EXPECT_THAT(bad("limit=api&require=" + name), HasSubstr("no header has the name")) << name;
  }
  std::string fields;
  for (int i = 0; i < 16; ++i) fields += "{method}";
  EXPECT_EQ(ask("limit=api&key=" + fields).status, 204);
  EXPECT_THAT(bad("limit=api&key=" + fields + "{ip}"), HasSubstr("more than 16 fields"));
  // The key that a template makes from a long header is bounded, and so are the keys of several
  // limits.
  const std::string header = "X-Long: " + std::string(8'000, 'x') + "\r\n";
  const auto long_key = [&](int times) {
    std::string query = "limit=api&limit=login&key=";
    for (int i = 0; i < times; ++i) query += "{header:X-Long}";
    return ask(query, header);
  };
  EXPECT_EQ(long_key(8).status, 204);
  EXPECT_THAT(long_key(9).body, HasSubstr("the keys of the request have more than 65536 bytes"));
  EXPECT_THAT(bad("limit=api&key=%zz"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(bad("limit=api&key=%4"), HasSubstr("two hexadecimal digits"));
  EXPECT_THAT(bad("limit=jobs"), HasSubstr("lends permits"));
  EXPECT_EQ(ask("limit=nope").status, 404);
}

// A page in a browser must not use up limits. Requests that a proxy passes on come from its
// clients.
TEST_F(AuthTest, RefusesAPageOfAnotherSiteUnlessAProxyAsks) {
  const std::string page = "Origin: http://evil.example\r\n";
  EXPECT_EQ(ask("limit=api", page).status, 403);
  EXPECT_EQ(connection.ask_one(get("/auth/api/path", page)).status, 403);
  EXPECT_EQ(connection.ask_one("GET /auth?limit=api HTTP/1.1\r\nHost: evil.example\r\n\r\n").status,
            403);
  EXPECT_TRUE(store->asked.empty());
  EXPECT_EQ(ask("limit=api", "Origin: http://localhost\r\n").status, 204);
  for (const std::string header : {"X-Forwarded-For: 203.0.113.7", "x-forwarded-method: GET",
                                   "X-Original-URI: /a", "X-Sluice-Token: secret"}) {
    EXPECT_EQ(ask("limit=api", page + header + "\r\n").status, 204) << header;
    EXPECT_EQ(
        connection
            .ask_one("GET /auth?limit=api HTTP/1.1\r\nHost: shop.example\r\n" + header + "\r\n\r\n")
            .status,
        204)
        << header;
  }
}

// A browser sends no Origin when a page loads an image, for example.
TEST_F(AuthTest, RefusesWhatAPageOfAnotherSiteLoads) {
  for (const std::string site : {"cross-site", "same-site"}) {
    const std::string page = "Sec-Fetch-Site: " + site + "\r\n";
    EXPECT_EQ(ask("limit=api", page).status, 403) << site;
    EXPECT_EQ(connection.ask_one(get("/auth/api/path", page)).status, 403) << site;
    EXPECT_TRUE(store->asked.empty());
    EXPECT_EQ(ask("limit=api", page + "X-Forwarded-For: 203.0.113.7\r\n").status, 204) << site;
    // A page can only have these loaded, not read them.
    EXPECT_EQ(connection.ask_one(get("/v1/limits", page)).status, 200) << site;
    store->asked.clear();
  }
  for (const std::string site : {"same-origin", "none"}) {
    EXPECT_EQ(ask("limit=api", "Sec-Fetch-Site: " + site + "\r\n").status, 204) << site;
  }
}

TEST_F(AuthTest, AnswersTheOriginalPath) {
  const std::string peer = "X-Forwarded-For: 203.0.113.7\r\n";
  EXPECT_EQ(key_of("/auth/api/shop/cart?x=1", peer), "203.0.113.7");
  const Reply admitted = connection.ask_one(
      "DELETE /auth/login/shop HTTP/1.1\r\nHost: shop.example\r\nOrigin: http://a\r\n" + peer +
      "\r\n");
  EXPECT_EQ(admitted.status, 200);
  EXPECT_EQ(admitted.header("RateLimit-Policy"), "\"login\";q=5;w=1");
  for (int i = 0; i < 4; ++i) connection.ask_one(get("/auth/login/", peer));
  EXPECT_EQ(connection.ask_one(get("/auth/login", peer)).status, 429);
  EXPECT_EQ(connection.ask_one(get("/auth/nope/x")).status, 404);
  EXPECT_EQ(connection.ask_one(get("/auth/token_bucket%201%2F1h/x")).status, 200);
}

}  // namespace
}  // namespace sluice::http

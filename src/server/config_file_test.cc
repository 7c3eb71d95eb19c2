#include "server/config_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <string_view>

#include "server/config_error.h"
#include "service/slow_decisions.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

std::string mistake(std::string_view yaml) {
  return error_of<ConfigError>([&] { parse_config(yaml, "f.yaml"); });
}

TEST(ConfigFile, HoldsWhatTheServerIsToldByIt) {
  const ServerOptions config = parse_config(R"(
listen:
  resp: [127.0.0.1:6380, "unix:/run/sluice/resp.sock"]
store: memory:?max_bytes=1073741824
drain: 1m30s
max_client_bytes: 40000000
snapshot: {file: /var/lib/sluice/snapshot, every: 5m}
log: {format: json, level: warning, slow: 20ms}
expressions: no
limits:
  login: sliding_log 5/10m
  api: token_bucket 100/1s burst=200
)",
                                            "f.yaml");
  EXPECT_THAT(
      config.addresses,
      ElementsAre(Pair("resp", ElementsAre("127.0.0.1:6380", "unix:/run/sluice/resp.sock"))));
  EXPECT_EQ(config.store, "memory:?max_bytes=1073741824");
  EXPECT_EQ(config.drain, std::chrono::seconds(90));
  EXPECT_EQ(config.max_client_bytes, 40'000'000U);
  EXPECT_EQ(config.snapshot.file, "/var/lib/sluice/snapshot");
  EXPECT_EQ(config.snapshot.every, std::chrono::minutes(5));
  EXPECT_EQ(config.log.format, LogFormat::kJson);
  EXPECT_EQ(config.log.level, LogLevel::kWarning);
  EXPECT_EQ(config.log.slow, std::chrono::milliseconds(20));
  EXPECT_EQ(parse_config("log: {slow: no}", "f.yaml").log.slow, SlowDecisions::kNever);
  EXPECT_EQ(parse_config("log: {slow: false}", "f.yaml").log.slow, SlowDecisions::kNever);
  EXPECT_EQ(
      mistake("log: {slow: never}"),
      "f.yaml:1:13: 'slow' must be a duration like 5s or 1m30s, or no; the units are ns us ms "
      "s m h d w");
  EXPECT_FALSE(config.limits.expressions);
  ASSERT_EQ(config.limits.named.size(), 2U);
  EXPECT_EQ(config.limits.named[1].limit.space(), "api");
  EXPECT_EQ(summary_of(config),
            "2 named limits, no expressions, 2 resp listeners, a snapshot, store "
            "memory:?max_bytes=1073741824");
}

TEST(ConfigFile, LeavesOpenWhatItDoesNotName) {
  const ServerOptions config = parse_config("limits: {login: sliding_log 5/10m}", "f.yaml");
  EXPECT_EQ(config.addresses, default_addresses());
  EXPECT_EQ(config.store, "memory:");
  EXPECT_TRUE(config.limits.expressions);
  EXPECT_EQ(summary_of(config), "1 named limit");
  EXPECT_THAT(parse_config("drain: 0s", "f.yaml").limits.named, IsEmpty());
}

TEST(ConfigFile, HasTheRulesForClientsBehindProxies) {
  const std::string_view forwarded = "203.0.113.7";
  const auto key = [&](const std::string& yaml, const char* peer) {
    return parse_config(yaml, "f.yaml").client_rules.client_ip.key(peer, {&forwarded, 1});
  };
  for (const char* peer : {"127.0.0.1", "::1", "unix:"}) {
    EXPECT_EQ(key("drain: 5s", peer), forwarded);
    EXPECT_EQ(key("trusted_proxies: []", peer), peer == std::string("::1") ? "::/64" : peer);
  }
  const std::string ten = "trusted_proxies: [10.0.0.0/8, \"unix:\"]";
  EXPECT_EQ(key(ten, "10.1.2.3"), forwarded);
  EXPECT_EQ(key(ten, "unix:"), forwarded);
  EXPECT_EQ(key(ten, "127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(key("trusted_proxies: 10.1.2.3", "10.1.2.3"), forwarded);
  EXPECT_EQ(parse_config("drain: 5s", "f").client_rules.header_style, HeaderStyle::kIetf11);
  EXPECT_EQ(parse_config("headers: draft-3", "f").client_rules.header_style, HeaderStyle::kDraft3);
}

TEST(ConfigFile, PointsAtMistakesInTheRulesForClients) {
  EXPECT_THAT(mistake("trusted_proxies: [10.0.0.0/8, proxy.example]"),
              StartsWith("f.yaml:1:31: \"proxy.example\" is not a trusted proxy: "));
  EXPECT_THAT(mistake("trusted_proxies:\n  - 10.0.0.0/33"), StartsWith("f.yaml:2:5: "));
  EXPECT_THAT(mistake("trusted_proxies: [[]]"), StartsWith("f.yaml:1:19: "));
  std::string many = "trusted_proxies: [";
  for (int i = 0; i < 2'000; ++i) many += "10.0.0.1, ";
  EXPECT_THAT(mistake(many + "]"), StartsWith("f.yaml:1:18: there are 2000 trusted proxies"));
  EXPECT_THAT(mistake("headers: ietf"), StartsWith("f.yaml:1:10: there is no style of headers"));
  EXPECT_THAT(mistake("headers: [none]"), StartsWith("f.yaml:1:10: "));
}

TEST(ConfigFile, HasTheFilesOfTlsForAllAndForOneAddress) {
  const ServerOptions config = parse_config(R"(
tls: {cert: /etc/server.pem, key: /etc/server.key}
listen:
  resp:
    - 127.0.0.1:6380
    - {address: 0.0.0.0:6390, tls: {cert: /etc/own.pem, client_ca: /etc/ca.pem}}
    - {address: 127.0.0.1:6391, tls: no}
)",
                                            "f.yaml");
  const TlsServerFiles own{.certificate = "/etc/own.pem", .key = "", .client_ca = "/etc/ca.pem"};
  EXPECT_EQ(config.tls, (TlsServerFiles{"/etc/server.pem", "/etc/server.key", ""}));
  EXPECT_THAT(config.addresses.at("resp"),
              ElementsAre(ServedAddress("127.0.0.1:6380"), ServedAddress("0.0.0.0:6390", own),
                          ServedAddress("127.0.0.1:6391", TlsServerFiles{})));
}

TEST(ConfigFile, FindsTheFilesOfTlsBesideItself) {
  EXPECT_EQ(parse_config("tls: {cert: server.pem, key: keys/server.key}", "/etc/sluice.yaml").tls,
            (TlsServerFiles{"/etc/server.pem", "/etc/keys/server.key", ""}));
}

TEST(ConfigFile, PointsAtMistakesInTls) {
  EXPECT_EQ(mistake("tls: yes"), "f.yaml:1:6: 'tls' must be no, or a map with 'cert'");
  EXPECT_EQ(mistake("tls: a.pem"), "f.yaml:1:6: 'tls' must be no, or a map with 'cert'");
  EXPECT_EQ(mistake("tls: {key: a}"), "f.yaml:1:6: 'tls' needs 'cert', a PEM file");
  EXPECT_EQ(mistake("tls: {cert: a, keys: b}"),
            "f.yaml:1:16: there is no 'keys' in 'tls' (did you mean 'key'?); there can be cert, "
            "key, client_ca");
  EXPECT_EQ(mistake("listen: {resp: {tls: no}}"), "f.yaml:1:16: 'address' is missing here");
  EXPECT_THAT(mistake("listen: {resp: {address: 127.0.0.1:0, tsl: no}}"),
              HasSubstr("there is no 'tsl' in an address (did you mean 'tls'?)"));
}

TEST(ConfigFile, NamesTheUsers) {
  const std::string hash = token_sha256("secret");
  const ServerOptions config =
      parse_config("users:\n  - {name: gateway, token: \"sha256:" + hash +
                       "\", roles: [check]}\n"
                       "  - {certificate: 'CN=gateway', roles: [check, admin, metrics]}\n",
                   "f.yaml");
  EXPECT_THAT(config.users, ElementsAre(User{"gateway", hash, "", kCheckRole},
                                        User{"", "", "CN=gateway", kAllRoles}));
  EXPECT_EQ(summary_of(config), "0 named limits, 2 users");
}

TEST(ConfigFile, PointsAtAWrongUser) {
  const std::string token = "token: \"sha256:" + token_sha256("secret") + "\"";
  EXPECT_EQ(mistake("users: {}"), "f.yaml:1:8: 'users' must be a list");
  EXPECT_THAT(mistake("users: [{name: a, token: secret, roles: [check]}]"),
              AllOf(StartsWith("f.yaml:1:26: 'token' must be sha256: and 64 hexadecimal digits"),
                    Not(HasSubstr("secret"))));
  EXPECT_EQ(mistake("users: [{name: a b, " + token + ", roles: check}]"),
            "f.yaml:1:16: a user's name has 1 to 64 characters of a-z A-Z 0-9 _ . -");
  EXPECT_EQ(mistake("users: [{name: a, roles: check}]"),
            "f.yaml:1:9: a user has 'name' and 'token', or 'certificate'");
  EXPECT_EQ(mistake("users: [{certificate: CN=a, " + token + ", roles: check}]"),
            "f.yaml:1:9: a user has 'name' and 'token', or 'certificate'");
  EXPECT_EQ(mistake("users: [{certificate: CN=a}]"),
            "f.yaml:1:9: a user needs 'roles': check, admin, metrics");
  for (const std::string subject :
       {"CN = a", "CN= a", "/CN=a", "subject: CN=a", "a", "=a", "CN=a, O=b", "CN=a\\, b, O=c"}) {
    EXPECT_EQ(mistake("users: [{certificate: '" + subject + "', roles: check}]"),
              "f.yaml:1:23: 'certificate' must be a subject as RFC 2253 writes it: "
              "'CN=gateway,O=Example'")
        << subject;
  }
  for (const std::string subject : {"2.5.4.3=#0C0161", "x-type=a,CN=b", "CN=a\\, b,O=c"}) {
    EXPECT_EQ(mistake("users: [{certificate: '" + subject + "', roles: check}]"), "");
  }
  EXPECT_EQ(mistake("users: [{certificate: CN=a, roles: [root]}]"),
            "f.yaml:1:37: a role is check, admin or metrics");
  EXPECT_EQ(
      mistake("users: [{certificate: CN=a, roles: check}, {certificate: CN=a, roles: admin}]"),
      "f.yaml:1:44: this user is there twice");
  EXPECT_EQ(mistake("users:\n  - {name: gateway, roles: check, " + token + "}\n" +
                    "  - {name: operator, roles: admin, " + token + "}"),
            "f.yaml:3:5: another user has the same token");
}

TEST(ConfigFile, TakesTheShortForms) {
  EXPECT_EQ(parse_config("store: memory", "f.yaml").store, "memory:");
  EXPECT_EQ(parse_config("drain: 0s", "f.yaml").drain, std::chrono::seconds(0));
  EXPECT_EQ(parse_config("drain: 1us", "f.yaml").drain, std::chrono::milliseconds(1));
  EXPECT_THAT(parse_config("listen: {resp: 127.0.0.1:6380}", "f.yaml").addresses.at("resp"),
              ElementsAre("127.0.0.1:6380"));
  EXPECT_THAT(parse_config("listen: {resp: []}", "f.yaml").addresses.at("resp"), IsEmpty());
  const std::string user = "users: [{name: a, roles: check, token: \"sha256:";
  EXPECT_EQ(parse_config(user + std::string(64, 'A') + "\"}]", "f.yaml").users[0].token_sha256,
            std::string(64, 'a'));
  for (const std::string no : {"no", "false", "off"}) {
    EXPECT_FALSE(parse_config("expressions: " + no, "f.yaml").limits.expressions) << no;
  }
}

TEST(ConfigFile, NamesAnUnknownMemberAndWhatItMayHaveMeant) {
  EXPECT_EQ(mistake("drian: 5s"),
            "f.yaml:1:1: there is no 'drian' in the file (did you mean 'drain'?); there can be "
            "listen, tls, store, drain, max_client_bytes, snapshot, log, expressions, users, "
            "trusted_proxies, headers, limits");
  EXPECT_THAT(mistake("\n\nfrobnicate: 5s"),
              StartsWith("f.yaml:3:1: there is no 'frobnicate' in the file; there can be listen"));
  EXPECT_THAT(mistake("listen:\n  rsep: []"),
              StartsWith("f.yaml:2:3: there is no 'rsep' in 'listen' (did you mean 'resp'?)"));
  // Not the password.
  EXPECT_THAT(mistake("redis://:hunter2@h: 1"),
              StartsWith("f.yaml:1:1: there is no 'redis://***' in the file; "));
  EXPECT_THAT(mistake("redis://:hunter2@h: 1\nredis://:hunter2@h: 1"),
              StartsWith("f.yaml:2:1: 'redis://***' is there twice in the file"));
}

TEST(ConfigFile, PointsAtAWrongType) {
  EXPECT_EQ(mistake("# nothing\n"), "f.yaml:1:1: the file is empty");
  EXPECT_EQ(mistake("snapshot:\n  every: 1m"), "f.yaml:2:3: 'snapshot' has no 'file'");
  EXPECT_THAT(mistake("snapshot: {file: f, every: 1ms}"), HasSubstr("must be from 1s to 1d"));
  EXPECT_EQ(mistake("listen: yes"), "f.yaml:1:9: 'listen' must be a map of protocols to addresses");
  EXPECT_EQ(mistake("listen:"), "f.yaml:1:1: 'listen' must be a map of protocols to addresses");
  EXPECT_EQ(mistake("listen:\n  resp: [[a]]"),
            "f.yaml:2:10: 'resp' must be a text like 127.0.0.1:6380 or unix:/run/sluice.sock");
  EXPECT_EQ(mistake("store: [a]"), "f.yaml:1:8: 'store' must be a text like memory:");
  EXPECT_EQ(mistake("store: ''"), "f.yaml:1:8: 'store' must be a text like memory:");
  EXPECT_EQ(mistake("store:\n"), "f.yaml:1:1: 'store' must be a text like memory:");
  EXPECT_EQ(mistake("log: {format: xml}"), "f.yaml:1:15: 'format' must be text or json");
  EXPECT_EQ(mistake("log: {level: [info]}"), "f.yaml:1:14: 'level' must be info, warning or error");
  for (const std::string wrong : {"256M", "-1", "33554431"}) {
    EXPECT_EQ(mistake("max_client_bytes: " + wrong),
              "f.yaml:1:19: 'max_client_bytes' must be a number of bytes, at least 33554432");
  }
  EXPECT_EQ(mistake("expressions: maybe"), "f.yaml:1:14: 'expressions' must be yes or no");
  EXPECT_EQ(mistake("expressions: [yes]"), "f.yaml:1:14: 'expressions' must be yes or no");
}

TEST(ConfigFile, PointsAtAWrongDuration) {
  EXPECT_EQ(mistake("drain: 5 parsecs"),
            "f.yaml:1:9: 'drain' must be a duration like 5s or 1m30s; the units are ns us ms s m h "
            "d w");
  EXPECT_THAT(mistake("drain: \"5\""), StartsWith("f.yaml:1:10: 'drain' must be a duration"));
  EXPECT_THAT(mistake("drain: -5s"), StartsWith("f.yaml:1:8: 'drain' must be a duration"));
  EXPECT_EQ(mistake("drain: 2h"), "f.yaml:1:8: 'drain' must be from 0s to 1h");
}

TEST(ConfigFile, PointsAtFilesThatCannotBeOpened) {
  EXPECT_THAT(mistake("listen: {resp: [127.0.0.1:6380, nonsense]}"),
              StartsWith("f.yaml:1:33: \"nonsense\" is not an address"));
  EXPECT_EQ(mistake("listen:\n  resp:\n    - 127.0.0.1:6380\n    - localhost:6380"),
            "f.yaml:4:7: the address 127.0.0.1:6380 is there twice");
  EXPECT_EQ(mistake("listen: {resp: ['127.0.0.1:0', '127.0.0.1:0']}"), "");
  EXPECT_THAT(mistake("store: cloud:x"), StartsWith("f.yaml:1:8: "));
  EXPECT_THAT(mistake("store: cloud:x"), HasSubstr("there is no such store"));
  EXPECT_THAT(mistake("store: memory:?max_byte=1048576"), HasSubstr("max_byte"));
  EXPECT_THAT(mistake("store: redis://h?on_failure=maybe"), HasSubstr("on_failure"));
  EXPECT_THAT(mistake("store: memcached://h?nonsense=1"), HasSubstr("nonsense"));
  EXPECT_EQ(mistake("store: redis://h?on_failure=deny&deadline=10ms"), "");
}

TEST(ConfigFile, KeepsThePasswordOfAStoreFromItsMessages) {
  EXPECT_THAT(mistake("store: redis://user:secret@h?nonsense=1"),
              AllOf(HasSubstr("nonsense"), Not(HasSubstr("secret"))));
  for (const std::string limit : {"'redis://user:secret@h'", "{limit: 'redis://user:secret@h'}"}) {
    EXPECT_THAT(mistake("limits: {store: " + limit + "}"),
                AllOf(HasSubstr("must be a limit like"), Not(HasSubstr("secret"))));
  }
  EXPECT_EQ(summary_of(parse_config("store: redis://user:secret@h", "f.yaml")),
            "0 named limits, store redis://user:***@h");
}

TEST(ConfigFile, PointsAtAQuoteThatIsNotClosed) {
  for (const std::string quote : {"'", "\""}) {
    for (const std::string end : {"\n", "\n\n", "\n# comment\n"}) {
      EXPECT_EQ(mistake("limits:\n  login: " + quote + "sliding_log 5/10m" + end),
                "f.yaml:2:10: the quote that begins here is not closed");
    }
    EXPECT_THAT(mistake("limits:\n  login: " + quote + "sliding_log 5/10m"),
                StartsWith("f.yaml:2:"));
    EXPECT_EQ(mistake("drain: &a !!str " + quote + "5s\n"),
              "f.yaml:1:8: the quote that begins here is not closed");
    EXPECT_EQ(mistake("drain: &a !!str " + quote + "5s" + quote + "\n"), "");
    EXPECT_EQ(mistake("\xEF\xBB\xBFlimits: {" + quote + "a" + quote + ": token_bucket 1/1s}"), "");
  }
  EXPECT_EQ(mistake("store: \"memory:\"\n"), "");
  EXPECT_THAT(mistake("store: 'mem''ory:'\n"), HasSubstr("is written scheme:"));
  EXPECT_THAT(mistake("store: \"mem\\\"ory:\"\n"), HasSubstr("is written scheme:"));
}

}  // namespace
}  // namespace sluice

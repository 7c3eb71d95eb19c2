#include "stores/remote_url.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "net/tls_client.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using redis::Topology;
using testing::HasSubstr;

redis::RedisOptions read(std::string_view text, const StoreOptions& options = {}) {
  StoreUrl url(text);
  return read_redis_url(url, options);
}

memcached::MemcachedOptions read_memcached(std::string_view text,
                                           const StoreOptions& options = {}) {
  StoreUrl url(text);
  return read_memcached_url(url, options);
}

// "; name value", or nothing where it is the default.
std::string option(const std::string& name, const std::string& value, const std::string& usual) {
  return value == usual ? "" : "; " + name + " " + value;
}

// The servers, and each option of both kinds of stores that differs from its default.
template <class Options>
std::string text_of_both(const Options& options) {
  std::string text;
  for (const Endpoint& server : options.servers) {
    text += " " + server.text() + (server.tls != nullptr ? " (tls)" : "");
  }
  return text + option("prefix", options.prefix, "sluice") +
         option("deadline", std::to_string(options.deadline.count()), "10000000") +
         option("connections", std::to_string(options.connections), "1");
}

std::string text_of(std::string_view url) {
  if (url.starts_with("memcached")) return "memcached" + text_of_both(read_memcached(url));
  const redis::RedisOptions options = read(url);
  const std::string topology = options.topology == Topology::kSingle     ? "single"
                               : options.topology == Topology::kSentinel ? "sentinel"
                                                                         : "cluster";
  return topology + text_of_both(options) + option("primary", options.primary_name, "") +
         option("user", options.user, "") + option("password", options.password, "") +
         option("sentinel user", options.sentinel_user, "") +
         option("sentinel password", options.sentinel_password, "") +
         option("database", std::to_string(options.database), "0") +
         option("time", options.client_time ? "client" : "server", "server") +
         option("skew", std::to_string(options.skew.count()), "5000");
}

TEST(RemoteUrl, IsRead) {
  for (const auto& [url, options] : std::vector<std::pair<const char*, const char*>>{
           {"redis://cache", "single cache:6379"},
           {"valkey://cache/3", "single cache:6379; database 3"},
           {"valkeys://cache", "single cache:6379 (tls)"},
           {"redis+cluster://cache?tls=no", "cluster cache:6379"},
           // The skew is at least the given value.
           {"redis://bob:s%40cret@[::1]:6380/65535?prefix=app&deadline=20ms&time=client&skew=1500us"
            "&connections=64",
            "single [::1]:6380; prefix app; deadline 20000000; connections 64; user bob; "
            "password s@cret; database 65535; time client; skew 2"},
           {"redis://:secret@cache/?time=server", "single cache:6379; password secret"},
           {"redis+sentinel://a/it", "sentinel a:26379; primary it"},
           {"redis+sentinel://bob:a@s,b:1,[::1]/it/3?sentinel_user=eve&sentinel_password=b%26"
            "&connections=2",
            "sentinel s:26379 b:1 [::1]:26379; connections 2; primary it; user bob; password a; "
            "sentinel user eve; sentinel password b&; database 3"},
           {"redis+cluster://bob:secret@a,b:1/?prefix=app",
            "cluster a:6379 b:1; prefix app; user bob; password secret"},
           {"unix:///run/re%20dis.sock?db=7&user=bob&password=secret&prefix=app",
            "single unix:/run/re dis.sock; prefix app; user bob; password secret; database 7"},
           {"unix://bob:secret@/run/redis.sock",
            "single unix:/run/redis.sock; user bob; password secret"},
           {"unix://bob:secret@/run/redis.sock?user=eve&password=other",
            "single unix:/run/redis.sock; user eve; password other"},
           {"memcached://cache", "memcached cache:11211"},
           {"memcached://a,b:1,[::1]:2?prefix=app&deadline=20ms&connections=3",
            "memcached a:11211 b:1 [::1]:2; prefix app; deadline 20000000; connections 3"},
       }) {
    EXPECT_EQ(text_of(url), options) << url;
  }
}

TEST(RemoteUrl, ReadsTls) {
  const auto bare = read("rediss://cache").servers.at(0).tls;
  ASSERT_NE(bare, nullptr);
  EXPECT_EQ(bare->options.ca_file, "");
  EXPECT_FALSE(bare->options.insecure);
  const std::string files = "ca=ca.pem&cert=own.pem&key=own.key&server_name=name&verify=no";
  for (const Endpoint& server : {read("rediss://cache?" + files).servers[0],
                                 read("redis+cluster://cache?tls=yes&" + files).servers[0],
                                 read("redis+sentinel://cache/it?tls=yes&" + files).servers[0],
                                 read_memcached("memcached://cache?tls=yes&" + files).servers[0]}) {
    SCOPED_TRACE(server.text());
    ASSERT_NE(server.tls, nullptr);
    EXPECT_EQ(server.tls->options.ca_file, "ca.pem");
    EXPECT_EQ(server.tls->options.certificate_file, "own.pem");
    EXPECT_EQ(server.tls->options.key_file, "own.key");
    EXPECT_EQ(server.tls->options.server_name, "name");
    EXPECT_TRUE(server.tls->options.insecure);
  }
}

TEST(RemoteUrl, GivesAReplayItsOwnPrefix) {
  const auto expect_own = [](const auto& first, const auto& second) {
    EXPECT_TRUE(first.virtual_time);
    EXPECT_THAT(first.prefix, testing::StartsWith("app-replay-"));
    EXPECT_LE(first.prefix.size(), 3U + 32U);
    EXPECT_NE(first.prefix, second.prefix);
    EXPECT_GE(first.deadline, 5s);
  };
  const StoreOptions replay{.virtual_time = true};
  expect_own(read("redis://a?prefix=app", replay), read("redis://a?prefix=app", replay));
  expect_own(read_memcached("memcached://a?prefix=app", replay),
             read_memcached("memcached://a?prefix=app", replay));
}

std::string error_of_remote(std::string_view text) {
  return error_of([&] { text_of(text); });
}

TEST(RemoteUrl, SaysWhatIsWrong) {
  struct Wrong {
    std::string url;
    std::string error;
  };
  const std::string database = "a database is a whole number from 0 to 65535";
  // It does not name the user, since its text may be the password.
  const std::string no_password =
      "it names a user without a password, as in user:password@ before the server or the socket";
  const std::string prefix = "a prefix has 1 to 128 bytes and no braces";
  for (const Wrong& wrong : {
           Wrong{"redis:", "it names no server"},
           {"redis://", "it names no server"},
           {"redis://a,b", "it names several servers: redis+cluster:// or redis+sentinel://"},
           {"redis://a/x", database},
           {"redis://a/65536", database},
           {"redis://a/-1", database},
           {"redis://a/1/2", database},
           {"redis+sentinel://a", "it does not say which primary"},
           {"redis+sentinel://a,b,a:26379/it", "it names a:26379 twice"},
           {"redis+cluster://a,a", "it names a:6379 twice"},
           {"redis+sentinel://a//1", "it does not say which primary"},
           {"redis+sentinel://a/it/x", database},
           {"redis+cluster://a/1", "a cluster has one database only"},
           {"unix:", "it names no socket"},
           {"unix:///", "it names no socket"},
           {"unix://a/run/redis.sock", "it names no socket"},
           {"unix:///s?db=65536", "db is a whole number from 0 to 65535"},
           {"redis://a?prefix=", prefix},
           {"redis://a?prefix=a{b", prefix},
           {"redis://a?prefix=" + std::string(129, 'x'), prefix},
           {"redis://a?deadline=0ms", "deadline is a duration, as 10ms or 1m30s, from 1ms to 1m"},
           {"redis://a?deadline=61s", "deadline is a duration"},
           {"redis://a?deadline=10", "deadline is a duration"},
           {"redis://a?time=mine", "time is server or client"},
           {"redis://a?skew=25h", "skew is a duration"},
           {"redis://a?connections=0", "connections is a whole number from 1 to 64"},
           {"redis://a?connections=65", "connections is a whole number from 1 to 64"},
           {"rediss://a?verify=maybe", "verify is no or yes"},
           {"redis+cluster://a?tls=maybe", "tls is no or yes"},
           {"redis://a?ca=ca.pem", "there is no option 'ca'"},
           {"redis+cluster://a?cert=own.pem", "there is no option 'cert'"},
           {"redis://a?tls=yes", "there is no option 'tls'"},
           {"redis://a?password=x", "there is no option 'password'"},
           {"redis://a?db=1", "there is no option 'db'"},
           {"unix:///s?tls=yes", "there is no option 'tls'"},
           {"redis://s?sentinel_password=b", "there is no option 'sentinel_password'"},
           {"redis+sentinel://s/it?sentinel_user=eve", "sentinel_user without a sentinel_password"},
           {"redis://bob@a", no_password},
           {"redis://bob:@a", no_password},
           {"rediss://bob@a", no_password},
           {"unix://bob@/s", no_password},
           {"unix:///s?user=bob", no_password},
           {"redis+cluster://bob@a", no_password},
           {"redis+sentinel://bob@a/it", no_password},
           {"memcached:", "it names no server"},
           {"memcached://a,b,a", "it names a:11211 twice"},
           {"memcached://u@a", "memcached takes no user and no password"},
           {"memcached://:p@a", "memcached takes no user and no password"},
           {"memcached://a/0", "nothing can follow the servers but options"},
           {"memcached://a?prefix=a:b", "a prefix has 1 to 64 characters from '!' to '~' without"},
           {"memcached://a?prefix=", "a prefix has 1 to 64"},
           {"memcached://a?ca=ca.pem", "there is no option 'ca'"},
           {"memcached://a?time=server", "there is no option 'time'"},
       }) {
    EXPECT_THAT(error_of_remote(wrong.url), HasSubstr(wrong.error)) << wrong.url;
  }
}

}  // namespace
}  // namespace sluice

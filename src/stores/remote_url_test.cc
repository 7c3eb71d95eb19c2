#include "stores/remote_url.h"

#include <gmock/gmock.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "net/tls_client.h"
#include "testing/error_of.h"

namespace sluice {
namespace {

using namespace std::chrono_literals;
using redis::Topology;
using testing::ElementsAre;
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

std::string error_of_remote(std::string_view text) {
  return error_of([&] {
    if (text.starts_with("memcached")) {
      read_memcached(text);
    } else {
      read(text);
    }
  });
}

std::vector<std::string> names_of(const std::vector<Endpoint>& servers) {
  std::vector<std::string> names;
  for (const Endpoint& server : servers) names.push_back(server.text());
  return names;
}

TEST(RemoteUrl, HasDefaults) {
  const auto redis = read("redis://cache");
  EXPECT_THAT(names_of(redis.servers), ElementsAre("cache:6379"));
  EXPECT_EQ(redis.deadline, 10ms);
  EXPECT_EQ(redis.connections, 1U);
  const auto memcached = read_memcached("memcached://cache");
  EXPECT_THAT(names_of(memcached.servers), ElementsAre("cache:11211"));
  EXPECT_EQ(memcached.deadline, 10ms);
  EXPECT_EQ(memcached.connections, 1U);
}

TEST(RemoteUrl, ReadsMemcachedServersAndTheirOptions) {
  const auto options =
      read_memcached("memcached://a,b:1,[::1]:2?prefix=app&deadline=20ms&connections=3");
  EXPECT_THAT(names_of(options.servers), ElementsAre("a:11211", "b:1", "[::1]:2"));
  EXPECT_EQ(options.servers[0].tls, nullptr);
  EXPECT_EQ(options.prefix, "app");
  EXPECT_EQ(options.deadline, 20ms);
  EXPECT_EQ(options.connections, 3U);
}

TEST(RemoteUrl, ValkeyIsAnotherName) {
  EXPECT_THAT(names_of(read("valkey://cache/3").servers), ElementsAre("cache:6379"));
  EXPECT_EQ(read("valkey://cache").servers[0].tls, nullptr);
  EXPECT_NE(read("valkeys://cache").servers[0].tls, nullptr);
}

TEST(RemoteUrl, ReadsARedisServerAndItsOptions) {
  const auto options = read(
      "redis://bob:s%40cret@[::1]:6380/65535?prefix=app&deadline=20ms&time=client&skew=1500us"
      "&connections=64");
  EXPECT_THAT(names_of(options.servers), ElementsAre("[::1]:6380"));
  EXPECT_EQ(options.user, "bob");
  EXPECT_EQ(options.password, "s@cret");
  EXPECT_EQ(options.database, 65'535);
  EXPECT_EQ(options.prefix, "app");
  EXPECT_EQ(options.deadline, 20ms);
  EXPECT_TRUE(options.client_time);
  EXPECT_EQ(options.skew, 2ms);  // At least the given value.
  EXPECT_EQ(options.connections, 64U);

  const auto plain = read("redis://:secret@cache/?time=server");
  EXPECT_EQ(plain.user, "");
  EXPECT_EQ(plain.password, "secret");
  EXPECT_EQ(plain.database, 0);
  EXPECT_FALSE(plain.client_time);
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
  EXPECT_EQ(read("redis+cluster://cache?tls=no").servers[0].tls, nullptr);
}

TEST(RemoteUrl, ReadsSentinels) {
  const auto options = read(
      "redis+sentinel://bob:secret@a,b:1,[::1]/it/3?connections=2&sentinel_user=eve"
      "&sentinel_password=b%26");
  EXPECT_EQ(options.topology, Topology::kSentinel);
  EXPECT_THAT(names_of(options.servers), ElementsAre("a:26379", "b:1", "[::1]:26379"));
  EXPECT_EQ(options.primary_name, "it");
  EXPECT_EQ(options.database, 3);
  EXPECT_EQ(options.user, "bob");
  EXPECT_EQ(options.password, "secret");
  EXPECT_EQ(options.connections, 2U);
  EXPECT_EQ(options.sentinel_user, "eve");
  EXPECT_EQ(options.sentinel_password, "b&");
  EXPECT_EQ(read("redis+sentinel://a/it").database, 0);
}

TEST(RemoteUrl, ReadsAClustersNodes) {
  const auto options = read("redis+cluster://bob:secret@a,b:1/?prefix=app");
  EXPECT_EQ(options.topology, Topology::kCluster);
  EXPECT_THAT(names_of(options.servers), ElementsAre("a:6379", "b:1"));
  EXPECT_EQ(options.user, "bob");
  EXPECT_EQ(options.password, "secret");
  EXPECT_EQ(options.prefix, "app");
}

TEST(RemoteUrl, ReadsASocketAndAUser) {
  const auto options = read("unix:///run/re%20dis.sock?db=7&user=bob&password=secret&prefix=app");
  EXPECT_EQ(options.topology, Topology::kSingle);
  ASSERT_EQ(options.servers.size(), 1U);
  EXPECT_EQ(options.servers[0].unix_path, "/run/re dis.sock");
  EXPECT_EQ(options.database, 7);
  EXPECT_EQ(options.user, "bob");
  EXPECT_EQ(options.password, "secret");
  EXPECT_EQ(options.prefix, "app");

  const auto before = read("unix://bob:secret@/run/redis.sock");
  EXPECT_EQ(before.user, "bob");
  EXPECT_EQ(before.password, "secret");
  const auto both = read("unix://bob:secret@/run/redis.sock?user=eve&password=other");
  EXPECT_EQ(both.user, "eve");
  EXPECT_EQ(both.password, "other");
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

#include "stores/memcached_url.h"

#include <gtest/gtest.h>

#include <string>

#include "net/tls_client.h"
#include "servers/certificates.h"
#include "servers/memcached_server.h"
#include "stores/stores.h"
#include "testing/error_of.h"
#include "testing/limited_keys.h"

namespace sluice {
namespace {

memcached::MemcachedOptions read(std::string_view text, const StoreOptions& options = {}) {
  StoreUrl url(text);
  return read_memcached_url(url, options);
}

std::string error_of_url(std::string_view text) {
  return error_of([&] { read(text); });
}

TEST(MemcachedUrl, HasDefaults) {
  const auto options = read("memcached://cache");
  EXPECT_EQ(options.servers.at(0).text(), "cache:11211");
  EXPECT_EQ(options.deadline, std::chrono::milliseconds(10));
  EXPECT_EQ(options.connections, 1U);
}

TEST(MemcachedUrl, ReadsServersAndOptions) {
  const auto options = read(
      "memcached://a,b:1,[::1]:2?prefix=app&deadline=20ms&connections=3&tls=yes&ca=ca.pem"
      "&cert=c.pem&key=k.pem&server_name=cache&verify=no");
  ASSERT_EQ(options.servers.size(), 3U);
  EXPECT_EQ(options.servers[0].text(), "a:11211");
  EXPECT_EQ(options.servers[1].text(), "b:1");
  EXPECT_EQ(options.servers[2].text(), "[::1]:2");
  ASSERT_NE(options.servers[2].tls, nullptr);
  EXPECT_EQ(options.servers[2].tls->options.ca_file, "ca.pem");
  EXPECT_EQ(options.servers[2].tls->options.certificate_file, "c.pem");
  EXPECT_EQ(options.servers[2].tls->options.key_file, "k.pem");
  EXPECT_EQ(options.servers[2].tls->options.server_name, "cache");
  EXPECT_TRUE(options.servers[2].tls->options.insecure);
  EXPECT_EQ(options.prefix, "app");
  EXPECT_EQ(options.deadline, std::chrono::milliseconds(20));
  EXPECT_EQ(options.connections, 3U);
}

// The server shows a certificate for localhost, and wants one of its authority's.
TEST(MemcachedUrl, OpensAStoreOverTls) {
  const servers::MemcachedServer server({.tls = true, .client_certificates = true});
  const auto& files = servers::certificates();
  const std::string url = server.url() + "&deadline=5s&ca=" + files.ca.native() +
                          "&cert=" + files.client.native() + "&key=" + files.client_key.native();
  const auto take = [&](const std::string& name) {
    const auto store = open_bare_store(url + "&server_name=" + name);
    return LimitedKeys(*store, "token_bucket 5/1h", "login").take("k").remaining;
  };
  EXPECT_EQ(take("localhost"), 4);
  EXPECT_THROW(take("elsewhere"), StoreError);
}

TEST(MemcachedUrl, GivesAReplayAPrefixOfItsOwn) {
  const auto first = read("memcached://a?prefix=app", {.virtual_time = true});
  const auto second = read("memcached://a?prefix=app", {.virtual_time = true});
  EXPECT_TRUE(first.virtual_time);
  EXPECT_TRUE(first.prefix.starts_with("app-replay-"));
  EXPECT_LE(first.prefix.size(), 3U + 32U);
  EXPECT_NE(first.prefix, second.prefix);
  EXPECT_GE(first.deadline, std::chrono::seconds(5));
}

TEST(MemcachedUrl, SaysWhatIsWrong) {
  EXPECT_NE(error_of_url("memcached:").find("it names no server"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://a,b,a").find("it names a:11211 twice"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://u@a").find("no user"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://a/0").find("nothing can follow the servers"),
            std::string::npos);
  EXPECT_NE(error_of_url("memcached://a?prefix=a:b").find("a prefix has 1 to 64"),
            std::string::npos);
  EXPECT_NE(error_of_url("memcached://a?prefix=").find("a prefix has 1 to 64"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://a?exact=no").find("'exact'"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://a?ca=ca.pem").find("'ca'"), std::string::npos);
  EXPECT_NE(error_of_url("memcached://a?time=server").find("'time'"), std::string::npos);
}

}  // namespace
}  // namespace sluice

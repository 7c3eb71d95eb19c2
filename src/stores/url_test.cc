#include "stores/url.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "testing/error_of.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::string error_of_url(std::string_view url) {
  return error_of([&] { StoreUrl read(url); });
}

TEST(StoreUrl, IsParsed) {
  const StoreUrl url(
      "redis://bob:s%40cret%2F%3a@one:7000,[::1]:7001,10.0.0.1,[fe80::1%25eth0]/2?a=b");
  EXPECT_EQ(url.scheme(), "redis");
  EXPECT_TRUE(url.has_authority());
  EXPECT_EQ(url.user(), "bob");
  EXPECT_EQ(url.password(), "s@cret/:");
  EXPECT_THAT(url.hosts(6379),
              ElementsAre(Endpoint{"one", 7000}, Endpoint{"::1", 7001}, Endpoint{"10.0.0.1", 6379},
                          Endpoint{"fe80::1%eth0", 6379}));
  EXPECT_EQ(url.path(), "/2");
}

TEST(StoreUrl, MostPartsAreOptional) {
  const StoreUrl memory("memory:");
  EXPECT_EQ(memory.scheme(), "memory");
  EXPECT_FALSE(memory.has_authority());
  EXPECT_THAT(memory.hosts(1), IsEmpty());
  EXPECT_EQ(memory.path(), "");
  EXPECT_NO_THROW(memory.finish());
}

TEST(StoreUrl, SaysWhatIsWrong) {
  struct Wrong {
    const char* url;
    const char* error;
  };
  for (const auto& wrong : {
           Wrong{"redis", "store: a store is written scheme:, as in memory:"},
           {"Redis:", "a store is written scheme:"},
           {"r://a\n", "a control character in it is written %xx"},
           {"r://a,,b", "a host is made of letters"},
           {"r://a,", "a host is missing after the last ','"},
           {"r://,a", "a host is made of letters"},
           {"r://a b", "a host is made of letters"},
           {"r://::1", "or is an IPv6 address in brackets"},
           {"r://[::1", "an IPv6 address is written [address] or [address]:port"},
           {"r://[::1]1", "an IPv6 address is written"},
           {"r://[]:1", "an IPv6 address is written"},
           {"r://[a]:1", "an IPv6 address is written"},
           {"r://a:0", "store 'r:': a port is a whole number from 1 to 65535"},
           {"r://a:65536", "a port is"},
           {"r://a:", "a port is"},
           {"r://[::1]:", "a port is"},
           {"r://a:+1", "a port is"},
           {"r://a%@b", "in the user a '%' is followed by two hexadecimal digits"},
           {"r://a:%4@b", "in the password a '%'"},
           {"r://a/%g0", "in the path a '%'"},
           {"r://a/%00", "in the path a zero byte cannot be"},
           {"r://a?b=%0", "in the option 'b' a '%'"},
           {"r://a?b", "each option is written name=value"},
           {"r://a?b=1&&", "each option is written name=value"},
           {"r://a?B=1",
            "each option is written name=value, the name in small letters, as in deny_cache=1s"},
           {"r://a?b=1&c=2&b=1", "the option 'b' is given twice"},
           {"r://a/b@c", "an '@' is written %40"},
           {"r://u:p@a:1,v:q@b:2", "stand once, before the first host"},
           {"r://u:p@ss@a", "an '@' in them is written %40"},
       }) {
    EXPECT_THAT(error_of_url(wrong.url), HasSubstr(wrong.error)) << wrong.url;
  }
}

TEST(StoreUrl, RejectsUnknownOptions) {
  StoreUrl url("x:?a=1&b=2");
  EXPECT_THAT(error_of([&] { url.finish(); }), HasSubstr("there is no option 'a'; there are none"));
  url.text_option("c");
  url.text_option("a");
  EXPECT_THAT(error_of([&] { url.finish(); }), HasSubstr("there is no option 'b'; there are c, a"));
  url.text_option("b");
  EXPECT_EQ(error_of([&] { url.finish(); }), "");
  StoreUrl near("x:?dedline=1ms");
  near.text_option("deadline");
  EXPECT_THAT(error_of([&] { near.finish(); }),
              HasSubstr("there is no option 'dedline' (did you mean 'deadline'?); there are"));
}

TEST(StoreUrl, IsBounded) {
  EXPECT_THAT(error_of_url("memory:?x=" + std::string(StoreUrl::kMaxBytes, 'y')),
              HasSubstr("at most 4096"));
  std::string hosts = "r://h0";
  for (std::size_t i = 1; i < StoreUrl::kMaxHosts; ++i) hosts += ",h" + std::to_string(i);
  EXPECT_EQ(StoreUrl(hosts).hosts(1).size(), StoreUrl::kMaxHosts);
  EXPECT_THAT(error_of_url(hosts + ",more"), HasSubstr("at most 64 hosts are named"));
}

TEST(StoreUrl, ShowsNoPassword) {
  EXPECT_EQ(StoreUrl("redis://bob:hunter2@h:1/0?a=b").text(), "redis://bob:***@h:1/0?a=b");
  EXPECT_EQ(StoreUrl("redis://:hunter2@h").text(), "redis://:***@h");
  EXPECT_EQ(StoreUrl("redis://hunter2@h").text(), "redis://***@h");
  EXPECT_EQ(StoreUrl("redis://h:1/0").text(), "redis://h:1/0");
  EXPECT_EQ(StoreUrl("r://[::1]:1,[::1],h?a=b:c").text(), "r://[::1]:1,[::1],h?a=b:c");
  EXPECT_EQ(StoreUrl("unix:/a?db=1&password=hunter2&x=y").text(), "unix:/a?db=1&password=***&x=y");
  EXPECT_EQ(StoreUrl("unix://u:p@/a?password=hunter2").text(), "unix://u:***@/a?password=***");
  EXPECT_EQ(StoreUrl("r://u:p@h/a?sentinel_user=s&sentinel_password=hunter2").text(),
            "r://u:***@h/a?sentinel_user=s&sentinel_password=***");
}

}  // namespace
}  // namespace sluice

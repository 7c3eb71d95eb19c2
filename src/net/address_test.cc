#include "net/address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

TEST(AddressTest, ReadsEveryFamilyAndWritesItBack) {
  EXPECT_EQ(parse_address("unix:/tmp/.//a").address->text(), "unix:/tmp/a");
  EXPECT_EQ(parse_address("unix:/var/run/../a").address->text(), "unix:/var/run/../a");
  for (const char* text : {"127.0.0.1:6380", "[::1]:0", "0.0.0.0:65535", "unix:/tmp/a b.sock"}) {
    const ParsedAddress parsed = parse_address(text);
    ASSERT_TRUE(parsed.address) << parsed.error;
    EXPECT_EQ(parsed.address->text(), text);
  }
  EXPECT_EQ(parse_address("localhost:1").address->text(), "127.0.0.1:1");
  EXPECT_EQ(parse_address("[0:0::0:1]:1").address->text(), "[::1]:1");
}

TEST(AddressTest, KnowsWhatOnlyThisMachineReaches) {
  for (const char* text :
       {"127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "[0:0:0:0:0:0:0:1]:1", "localhost:1", "unix:x"}) {
    EXPECT_TRUE(parse_address(text).address->is_local()) << text;
  }
  for (const char* text : {"0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[fe80::1]:1", "128.0.0.1:1"}) {
    EXPECT_FALSE(parse_address(text).address->is_local()) << text;
  }
}

TEST(AddressTest, RefusesInOneSentenceThatNamesTheText) {
  const auto error = [](std::string_view text) {
    const ParsedAddress parsed = parse_address(text);
    EXPECT_FALSE(parsed.address) << text;
    EXPECT_THAT(parsed.error, testing::HasSubstr(std::string(1, '"').append(text).append("\"")));
    return parsed.error.substr(parsed.error.find("listen on: ") + 11);
  };
  EXPECT_EQ(error("6380"), "write ADDRESS:PORT, [IPV6-ADDRESS]:PORT or unix:PATH");
  EXPECT_EQ(error("127.0.0.1:"), "the port must be a number from 0 to 65535");
  EXPECT_EQ(error("127.0.0.1:65536"), "the port must be a number from 0 to 65535");
  EXPECT_EQ(error("127.0.0.1:-1"), "the port must be a number from 0 to 65535");
  EXPECT_EQ(error("127.0.0.1:1x"), "the port must be a number from 0 to 65535");
  EXPECT_EQ(error("example.org:1"), "the address must be numeric, like 127.0.0.1 or [::1]");
  EXPECT_EQ(error(":1"), "the address must be numeric, like 127.0.0.1 or [::1]");
  EXPECT_EQ(error("::1:1"), "an IPv6 address stands in brackets");
  EXPECT_EQ(error("[127.0.0.1]:1"), "no IPv6 address stands in the brackets");
  EXPECT_EQ(error("unix:"), "there is no path after unix:");
  EXPECT_EQ(error("unix:" + std::string(108, 'x')),
            "the path has 108 bytes, a socket's has 107 at most");
}

}  // namespace
}  // namespace sluice

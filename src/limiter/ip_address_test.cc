#include "limiter/ip_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdio>

namespace sluice {
namespace {

using namespace std::string_view_literals;
using testing::HasSubstr;

std::string text_of(const std::optional<IpAddress>& address) {
  return address ? address->to_string() : "none";
}

struct Reading {
  std::string_view written;
  std::string_view read;
};

TEST(IpAddress, HasOneTextHoweverItIsWritten) {
  constexpr Reading kReadings[] = {
      {"203.0.113.7", "203.0.113.7"},
      {"0.0.0.0", "0.0.0.0"},
      {"255.255.255.255", "255.255.255.255"},
      {"::ffff:203.0.113.7", "203.0.113.7"},
      {"::FFFF:cb00:7107", "203.0.113.7"},
      {"0:0:0:0:0:ffff:203.0.113.7", "203.0.113.7"},
      {"0000:0000:0000:0000:0000:ffff:255.255.255.255", "255.255.255.255"},
      {"2001:DB8::1", "2001:db8::1"},
      {"2001:0db8:0000:0000:0000:0000:0000:0001", "2001:db8::1"},
      {"2001:db8:0:1:0:0:0:1", "2001:db8:0:1::1"},
      {"::", "::"},
      {"::1", "::1"},
      {"1::", "1::"},
  };
  for (const Reading& reading : kReadings) {
    EXPECT_EQ(text_of(parse_ip_address(reading.written)), reading.read) << reading.written;
  }
}

class NoIpAddress : public testing::TestWithParam<std::string_view> {};

TEST_P(NoIpAddress, IsRefused) {
  EXPECT_EQ(text_of(parse_ip_address(GetParam())), "none");
}

INSTANTIATE_TEST_SUITE_P(
    Texts, NoIpAddress,
    testing::Values("", "unknown", "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.08",
                    "0x1.2.3.4", "1.2.3.4 ", " 1.2.3.4", "1.2.3.4/32", "1.2.3.4:80", "16909060",
                    "1.2.3.-4", "1.2.3.+4", "1..3.4", "[::1]", "::1%eth0", ":", ":::", "1::2::3",
                    "1:2:3:4:5:6:7", "12345::", "::g", "::1.2.3.04", "1:2:3:4:5:6:7:8:9",
                    "1.2.3.4\0"sv, "::1\0.1"sv, "0000:0000:0000:0000:0000:ffff:255.255.255.2550"));

TEST(IpEndpoint, MayHavePortBracketsZoneAndSpaces) {
  constexpr Reading kReadings[] = {
      {" \t203.0.113.7\t ", "203.0.113.7"},
      {"203.0.113.7:80", "203.0.113.7"},
      {"203.0.113.7:65535", "203.0.113.7"},
      {"2001:db8::1", "2001:db8::1"},
      {"[2001:db8::1]", "2001:db8::1"},
      {"[2001:db8::1]:443", "2001:db8::1"},
      {"[::ffff:203.0.113.7]:443", "203.0.113.7"},
      {"fe80::1%eth0", "fe80::1"},
      {"[fe80::1%eth0]:443", "fe80::1"},
  };
  for (const Reading& reading : kReadings) {
    EXPECT_EQ(text_of(parse_ip_endpoint(reading.written)), reading.read) << reading.written;
  }
}

class NoIpEndpoint : public testing::TestWithParam<std::string_view> {};

TEST_P(NoIpEndpoint, IsRefused) {
  EXPECT_EQ(text_of(parse_ip_endpoint(GetParam())), "none");
}

INSTANTIATE_TEST_SUITE_P(Texts, NoIpEndpoint,
                         testing::Values("", " ", "unknown", "_hidden", "unix:", "/run/a.sock",
                                         "203.0.113.7:", "203.0.113.7:65536", "203.0.113.7:http",
                                         "203.0.113.7:-1", "203.0.113.7 :80", ":80",
                                         "203.0.113.7%eth0", "[203.0.113.7]:80", "[2001:db8::1",
                                         "[2001:db8::1]443", "[2001:db8::1]:", "[2001:db8::1]:x",
                                         "[]", "[", "2001:db8::1]:443", "fe80::1%",
                                         "\"203.0.113.7\"", "for=203.0.113.7",
                                         "203.0.113.7 198.51.100.1"));

bool holds(std::string_view range, std::string_view address) {
  const ParsedIpRange parsed = parse_ip_range(range);
  return parsed.range && parsed.range->contains(*parse_ip_address(address));
}

TEST(IpRange, HoldsWhatBeginsAlike) {
  EXPECT_TRUE(holds("10.0.0.0/8", "10.255.255.255"));
  EXPECT_FALSE(holds("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(holds("10.0.0.0/8", "::ffff:10.0.0.1"));
  EXPECT_TRUE(holds("::ffff:10.0.0.0/104", "10.0.0.1"));
  EXPECT_TRUE(holds("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(holds("10.1.2.3", "10.1.2.2"));
  EXPECT_TRUE(holds("2001:db8::/33", "2001:db8:7fff::"));
  EXPECT_FALSE(holds("2001:db8::/33", "2001:db8:8000::"));
  EXPECT_TRUE(holds("::1", "::1"));
  EXPECT_FALSE(holds("::/1", "10.0.0.1"));
}

TEST(IpRange, SaysWhatIsWrong) {
  const auto error = [](std::string_view text) { return parse_ip_range(text).error; };
  EXPECT_THAT(error(""), HasSubstr("write an address"));
  EXPECT_THAT(error("proxy.example"), HasSubstr("write an address"));
  EXPECT_THAT(error("/8"), HasSubstr("write an address"));
  EXPECT_THAT(error("10.0.0.1:80"), HasSubstr("write an address"));
  for (const std::string_view bits : {"", "x", "33", "-1", "8/8", " 8", "8 ", "99999999999"}) {
    EXPECT_THAT(error("10.0.0.0/" + std::string(bits)), HasSubstr("from 1 to 32")) << bits;
  }
  EXPECT_THAT(error("2001:db8::/129"), HasSubstr("from 1 to 128"));
  EXPECT_THAT(error("10.0.0.1/8"), HasSubstr("write 10.0.0.0/8"));
  EXPECT_THAT(error("::ffff:10.0.0.1/104"), HasSubstr("write 10.0.0.0/8"));
  EXPECT_THAT(error("2001:db8::1/32"), HasSubstr("write 2001:db8::/32"));
  for (const std::string_view all : {"0.0.0.0/0", "::/0", "::ffff:0:0/96"}) {
    EXPECT_THAT(error(all), HasSubstr("every address")) << all;
  }
}

// Groups of four hexadecimal digits, none left out: as long as the text of an address gets.
std::string long_text(const std::array<std::uint16_t, 8>& groups) {
  std::string text;
  for (const std::uint16_t group : groups) {
    char written[6];
    std::snprintf(written, sizeof written, ":%04X", static_cast<unsigned>(group));
    text += written;
  }
  return text.substr(1);
}

RC_GTEST_PROP(IpAddress, ReadsItsOwnText, (const std::array<std::uint16_t, 8>& groups)) {
  const auto address = parse_ip_address(long_text(groups));
  RC_ASSERT(address.has_value());
  RC_ASSERT(parse_ip_address(address->to_string()) == address);
  RC_ASSERT(parse_ip_endpoint("[" + long_text(groups) + "]:1") == address);
}

RC_GTEST_PROP(IpAddress, IsInEachOfItsNetworks, (const std::array<std::uint16_t, 8>& groups)) {
  const IpAddress address = *parse_ip_address(long_text(groups));
  const int prefix = *rc::gen::inRange(1, bits_of(address) + 1);
  const IpAddress network = network_of(address, prefix);
  RC_ASSERT(network_of(network, prefix) == network);
  const auto parsed = parse_ip_range(network.to_string() + "/" + std::to_string(prefix));
  RC_ASSERT(parsed.range.has_value());
  RC_ASSERT(parsed.range->contains(address));
}

}  // namespace
}  // namespace sluice

#include "sluice/keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <set>
#include <stdexcept>

#include "testing/error_of.h"

namespace sluice {
namespace {

using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

using namespace std::string_view_literals;
using Lines = std::vector<std::string_view>;

const ClientIp& behind_proxies() {
  static const ClientIp client_ip({.trusted_proxies = {"10.0.0.0/8", "2001:db8:aaaa::/48"}});
  return client_ip;
}

std::string error_of_options(const ClientIpOptions& options) {
  return error_of<std::invalid_argument>([&] { ClientIp client_ip(options); });
}

std::string error_of_proxy(std::string_view proxy) {
  return error_of_options({.trusted_proxies = {"10.0.0.0/8", std::string(proxy)}});
}

struct Reading {
  std::string_view written;
  std::string_view key;
};

TEST(ClientIp, OneClientHasOneKey) {
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
      // With spaces, a port, brackets or a zone.
      {" \t203.0.113.7\t ", "203.0.113.7"},
      {"203.0.113.7:80", "203.0.113.7"},
      {"203.0.113.7:65535", "203.0.113.7"},
      {"[2001:db8::1]", "2001:db8::1"},
      {"[2001:db8::1]:443", "2001:db8::1"},
      {"[::ffff:203.0.113.7]:443", "203.0.113.7"},
      {"fe80::1%eth0", "fe80::1"},
      {"[fe80::1%eth0]:443", "fe80::1"},
  };
  const ClientIp narrow({.ipv4_prefix = 32, .ipv6_prefix = 128});
  for (const Reading& reading : kReadings) {
    EXPECT_EQ(narrow.key(reading.written), reading.key) << reading.written;
  }
}

TEST(ClientIp, CutsAddressesAsItIsTold) {
  const ClientIp by_default;
  EXPECT_EQ(by_default.key("203.0.113.7"), "203.0.113.7");
  EXPECT_EQ(by_default.key("[2001:db8:0:7:ffff::5]:80"), "2001:db8:0:7::/64");
  EXPECT_EQ(by_default.key("fe80::1%eth0"), "fe80::/64");
  const ClientIp wide({.ipv4_prefix = 24, .ipv6_prefix = 48});
  EXPECT_EQ(wide.key("203.0.113.7"), "203.0.113.0/24");
  EXPECT_EQ(wide.key("::ffff:203.0.113.7"), "203.0.113.0/24");
  EXPECT_EQ(wide.key("2001:db8:1:2::3"), "2001:db8:1::/48");
}

/// A text that is neither an address nor, with a port, brackets or a zone, the end of a connection.
class NoAddress : public testing::TestWithParam<std::string_view> {};

TEST_P(NoAddress, IsItsOwnKey) {
  EXPECT_EQ(ClientIp().key(GetParam()), GetParam());
}

TEST_P(NoAddress, EndsTheSearchForTheClient) {
  const std::string line = "6.6.6.6, " + std::string(GetParam());
  EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line}), "10.0.0.1");
  EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line + ", 10.2.2.2"}), "10.2.2.2");
  EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line, "10.2.2.2"}), "10.2.2.2");
  EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line + ", 203.0.113.7"}), "203.0.113.7");
}

TEST_P(NoAddress, IsNoProxy) {
  EXPECT_THAT(error_of_proxy(GetParam()), HasSubstr("write an address"));
}

INSTANTIATE_TEST_SUITE_P(
    Texts, NoAddress,
    testing::Values("unknown", "_hidden", "client.example", "/run/a.sock", "\"1.2.3.4\"",
                    "for=1.2.3.4", "1.2.3.4 5.6.7.8", "1.2.3.4;5.6.7.8", "\xff\xfe", "\r\n",
                    "1.2.3", "1.2.3.4.5", "1.2.3.256", "01.2.3.4", "1.2.3.08", "0x1.2.3.4",
                    "16909060", "1.2.3.-4", "1.2.3.+4", "1..3.4", "1.2.3.4\0"sv, ":",
                    ":::", "1::2::3", "1:2:3:4:5:6:7", "1:2:3:4:5:6:7:8:9", "12345::", "::g",
                    "::1.2.3.04", "::1\0.1"sv, "1.2.3.4:", "1.2.3.4:65536", "1.2.3.4:http",
                    "1.2.3.4:-1", "1.2.3.4 :80", ":80", "1.2.3.4%eth0", "[1.2.3.4]:80",
                    "[2001:db8::1", "[2001:db8::1]443", "[2001:db8::1]:", "[2001:db8::1]:x", "[]",
                    "[", "2001:db8::1]:443", "fe80::1%", "::ffff:255.255.255.2550"));

TEST(ClientIp, APeerWithoutAddressIsItsOwnKey) {
  const ClientIp client_ip;
  for (const std::string_view peer : {"", " ", "unix:", "localhost", "1.2.3.4/32",
                                      "0000:0000:0000:0000:0000:ffff:255.255.255.2550"}) {
    EXPECT_EQ(client_ip.key(peer), peer);
  }
  EXPECT_EQ(client_ip.key(std::string(1000, 'x')), std::string(128, 'x'));
}

TEST(ClientIp, DoesNotBelieveAnyPeer) {
  const Lines lines = {"198.51.100.1"};
  EXPECT_EQ(ClientIp().key("10.0.0.1", lines), "10.0.0.1");
  EXPECT_EQ(behind_proxies().key("203.0.113.7", lines), "203.0.113.7");
  EXPECT_EQ(behind_proxies().key("2001:db8:aaab::1", lines), "2001:db8:aaab::/64");
  for (const std::string_view peer : {"", "unix:", "localhost", "10.0.0.01"}) {
    EXPECT_EQ(behind_proxies().key(peer, lines), peer);
  }
}

TEST(ClientIp, BelievesAProxyOnAUnixSocketIfTold) {
  const ClientIp client_ip({.trusted_proxies = {"unix:"}});
  const Lines lines = {"6.6.6.6, 198.51.100.1"};
  EXPECT_EQ(client_ip.key("unix:", lines), "198.51.100.1");
  EXPECT_EQ(client_ip.key("unix:/run/a.sock", lines), "198.51.100.1");
  EXPECT_EQ(client_ip.key("unix:", Lines{"198.51.100.1, unknown"}), "unix:");
  for (const std::string_view peer : {"", "/run/a.sock", "localhost", "203.0.113.7"}) {
    EXPECT_EQ(client_ip.key(peer, lines), peer);
  }
}

struct Walk {
  Lines lines;
  std::string_view client;
};

TEST(ClientIp, IsTheRightmostThatIsNoProxy) {
  const std::vector<Walk> walks = {
      {{}, "10.0.0.1"},
      {{""}, "10.0.0.1"},
      {{"203.0.113.7"}, "203.0.113.7"},
      {{"6.6.6.6, 203.0.113.7"}, "203.0.113.7"},
      {{"6.6.6.6,203.0.113.7,10.3.3.3 ,\t10.2.2.2"}, "203.0.113.7"},
      {{"6.6.6.6, 203.0.113.7:555, 2001:db8:aaaa::1, [2001:db8:aaaa::2]:80"}, "203.0.113.7"},
      {{"6.6.6.6, 2001:db8:1:2:3::, ::ffff:10.2.2.2"}, "2001:db8:1:2::/64"},
      // All are proxies: the first of them is the client.
      {{"10.9.9.9, 10.2.2.2"}, "10.9.9.9"},
      // The lines of a header are one list.
      {{"6.6.6.6", "203.0.113.7", "10.2.2.2"}, "203.0.113.7"},
      {{"6.6.6.6, 203.0.113.7", "", "10.3.3.3,10.2.2.2"}, "203.0.113.7"},
      // Nothing stands between two commas.
      {{"203.0.113.7, , 10.2.2.2,, ,"}, "203.0.113.7"},
      {{",,,"}, "10.0.0.1"},
  };
  for (const Walk& walk : walks) {
    EXPECT_EQ(behind_proxies().key("10.0.0.1", walk.lines), walk.client)
        << testing::PrintToString(walk.lines);
  }
}

TEST(ClientIp, ReadsNoMoreThanItsBounds) {
  const auto key = [](const Lines& lines) { return behind_proxies().key("10.0.0.1", lines); };
  std::string proxies;
  for (int i = 0; i < 31; ++i) proxies += ",10.2.2.2";
  EXPECT_EQ(key({"203.0.113.7" + proxies}), "203.0.113.7");
  EXPECT_EQ(key({"203.0.113.7,10.3.3.3" + proxies}), "10.3.3.3");
  EXPECT_EQ(key({"203.0.113.7" + std::string(31, ',')}), "203.0.113.7");
  EXPECT_EQ(key({"203.0.113.7" + std::string(32, ',')}), "10.0.0.1");
  Lines many(31, "10.2.2.2");
  many.insert(many.begin(), "203.0.113.7");
  EXPECT_EQ(key(many), "203.0.113.7");
  many.insert(many.begin() + 1, "");
  EXPECT_EQ(key(many), "10.2.2.2");

  const std::string spaces(64 - 11, ' ');
  EXPECT_EQ(key({"6.6.6.6," + spaces + "203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(key({spaces + "203.0.113.7"}), "203.0.113.7");
  EXPECT_EQ(key({"6.6.6.6, " + spaces + "203.0.113.7"}), "10.0.0.1");
  EXPECT_EQ(key({" " + spaces + "203.0.113.7"}), "10.0.0.1");
  // Text that a client adds on the left is not read.
  EXPECT_EQ(key({std::string(8'000'000, 'x') + ",203.0.113.7"}), "203.0.113.7");
}

TEST(ClientIp, TrustsTheAddressesOfARange) {
  const auto trusts = [](const std::string& range, std::string_view peer) {
    return ClientIp({.trusted_proxies = {range}}).key(peer, Lines{"9.9.9.9"}) == "9.9.9.9";
  };
  EXPECT_TRUE(trusts("10.0.0.0/8", "10.255.255.255"));
  EXPECT_FALSE(trusts("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(trusts("10.0.0.0/8", "::ffff:10.0.0.1"));
  EXPECT_TRUE(trusts("::ffff:10.0.0.0/104", "10.0.0.1"));
  EXPECT_TRUE(trusts("10.1.2.3", "10.1.2.3"));
  EXPECT_FALSE(trusts("10.1.2.3", "10.1.2.2"));
  EXPECT_TRUE(trusts("2001:db8::/33", "2001:db8:7fff::"));
  EXPECT_FALSE(trusts("2001:db8::/33", "2001:db8:8000::"));
  EXPECT_TRUE(trusts("::1", "::1"));
  EXPECT_FALSE(trusts("::/1", "10.0.0.1"));
}

TEST(ClientIp, SaysWhatIsWrongWithAProxy) {
  EXPECT_EQ(error_of_proxy("10.0.0.1/8"),
            "\"10.0.0.1/8\" is not a trusted proxy: it has bits beyond its length, "
            "write 10.0.0.0/8");
  EXPECT_THAT(error_of_proxy("::ffff:10.0.0.1/104"), HasSubstr("write 10.0.0.0/8"));
  EXPECT_THAT(error_of_proxy("2001:db8::1/32"), HasSubstr("write 2001:db8::/32"));
  for (const std::string_view text :
       {"", "/8", "unix:/run/a", " 1.2.3.4", "1.2.3.4 ", "1.2.3.4:80", "[::1]", "::1%eth0"}) {
    EXPECT_THAT(error_of_proxy(text), HasSubstr("write an address")) << text;
  }
  for (const std::string_view bits : {"", "x", "33", "-1", "8/8", " 8", "8 ", "99999999999"}) {
    EXPECT_THAT(error_of_proxy("10.0.0.0/" + std::string(bits)), HasSubstr("from 1 to 32")) << bits;
  }
  EXPECT_THAT(error_of_proxy("2001:db8::/129"), HasSubstr("from 1 to 128"));
  for (const std::string_view all : {"0.0.0.0/0", "::/0", "::ffff:0:0/96"}) {
    EXPECT_THAT(error_of_proxy(all), HasSubstr("every address")) << all;
  }
  EXPECT_THAT(error_of_proxy("a\nb" + std::string(100, 'c')),
              AllOf(StartsWith("\"a\\x0ab"), HasSubstr("…\""), Not(HasSubstr("\n"))));
}

TEST(ClientIp, RefusesNumbersOutOfRange) {
  EXPECT_EQ(error_of_options({.trusted_proxies = std::vector<std::string>(1024, "10.0.0.1")}), "");
  EXPECT_EQ(error_of_options({.trusted_proxies = std::vector<std::string>(1025, "10.0.0.1")}),
            "there are 1025 trusted proxies, at most 1024");
  EXPECT_EQ(error_of_options({.ipv4_prefix = 0}), "ipv4_prefix must be from 1 to 32, it is 0");
  EXPECT_EQ(error_of_options({.ipv4_prefix = 33}), "ipv4_prefix must be from 1 to 32, it is 33");
  EXPECT_EQ(error_of_options({.ipv6_prefix = 129}), "ipv6_prefix must be from 1 to 128, it is 129");
}

// An address of IPv6's public part: never an IPv4 address, never a proxy of these tests.
std::string public_text(std::array<std::uint16_t, 8> groups) {
  groups[0] = static_cast<std::uint16_t>(0x3000 | (groups[0] & 0xfff));
  std::string text;
  for (const std::uint16_t group : groups) {
    char written[6];
    std::snprintf(written, sizeof written, ":%x", static_cast<unsigned>(group));
    text += written;
  }
  return text.substr(1);
}

using Groups = std::array<std::uint16_t, 8>;

RC_GTEST_PROP(ClientIp, ANetworkIsOneClient, (const Groups& one, Groups other)) {
  std::copy(one.begin(), one.begin() + 4, other.begin());
  const ClientIp client_ip;
  const std::string key = client_ip.key(public_text(one));
  RC_ASSERT(client_ip.key(public_text(other)) == key);
  RC_ASSERT(key.ends_with("::/64"));
  ++other[3];
  RC_ASSERT(client_ip.key(public_text(other)) != key);
}

RC_GTEST_PROP(ClientIp, AKeyNamesItsNetwork, (const Groups& groups)) {
  const int prefix = *rc::gen::inRange(1, 128);
  const ClientIp client_ip({.ipv6_prefix = prefix});
  const std::string key = client_ip.key(public_text(groups));
  RC_ASSERT(key.ends_with("/" + std::to_string(prefix)));
  // It is the range that has the client, and the address in it has the same key.
  const ClientIp trusting({.trusted_proxies = {key}});
  RC_ASSERT(trusting.key(public_text(groups), Lines{"9.9.9.9"}) == "9.9.9.9");
  RC_ASSERT(client_ip.key(key.substr(0, key.find('/'))) == key);
}

RC_GTEST_PROP(ClientIp, NothingOnTheLeftChangesTheClient,
              (const std::string& made_up, const std::vector<std::string>& earlier,
               const Groups& client)) {
  Lines lines(earlier.begin(), earlier.end());
  const std::string line = made_up + ", " + public_text(client) + ", 10.1.1.1";
  lines.push_back(line);
  RC_ASSERT(behind_proxies().key("10.0.0.1", lines) == ClientIp().key(public_text(client)));
}

TEST(KeyHasher, IsHmacSha256CutTo128Bits) {
  // RFC 4231, test cases 3 and 6: keys of 20 and 131 bytes.
  EXPECT_EQ(KeyHasher(std::string(20, '\xaa')).key(std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a7");
  EXPECT_EQ(KeyHasher(std::string(131, '\xaa'))
                .key("Test Using Larger Than Block-Size Key - Hash Key First"),
            "60e431591ee0b67f0d8a26aacbf5b77f");
}

TEST(KeyHasher, TellsSecretsAndPeppersApart) {
  std::set<std::string> keys;
  for (const std::string_view pepper : {"0123456789abcdef", "0123456789abcdeF"}) {
    const KeyHasher hasher(pepper);
    for (const std::string_view secret : {""sv, "a"sv, "A"sv, "a\0"sv, "\0a"sv}) {
      EXPECT_EQ(hasher.key(secret), KeyHasher(pepper).key(secret));
      EXPECT_EQ(hasher.key(secret).size(), 32u);
      keys.insert(hasher.key(secret));
    }
  }
  EXPECT_EQ(keys.size(), 10u);
}

TEST(KeyHasher, RefusesAPepperThatCanBeGuessed) {
  for (const std::string_view pepper : {"", "secret", "0123456789abcde"}) {
    EXPECT_THAT(error_of<std::invalid_argument>([&] { KeyHasher hasher(pepper); }),
                AllOf(HasSubstr("the pepper has " + std::to_string(pepper.size())),
                      EndsWith("at least 16")));
  }
}

}  // namespace
}  // namespace sluice

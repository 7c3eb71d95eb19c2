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

using Lines = std::vector<std::string_view>;

const ClientIp& behind_proxies() {
  static const ClientIp client_ip({.trusted_proxies = {"10.0.0.0/8", "2001:db8:aaaa::/48"}});
  return client_ip;
}

std::string error_of_options(const ClientIpOptions& options) {
  return error_of<std::invalid_argument>([&] { ClientIp client_ip(options); });
}

TEST(ClientIp, OneClientHasOneKey) {
  const ClientIp client_ip;
  for (const std::string_view peer : {"203.0.113.7", "203.0.113.7:4711", "::ffff:203.0.113.7",
                                      "[::FFFF:cb00:7107]:80", " 203.0.113.7 "}) {
    EXPECT_EQ(client_ip.key(peer), "203.0.113.7") << peer;
  }
  for (const std::string_view peer : {"2001:db8:0:7::1", "2001:DB8:0:7:ffff:ffff:ffff:ffff",
                                      "[2001:db8:0:7::5]:80", "2001:0db8:0000:0007::%eth0"}) {
    EXPECT_EQ(client_ip.key(peer), "2001:db8:0:7::/64") << peer;
  }
  EXPECT_EQ(client_ip.key("fe80::1%eth0"), "fe80::/64");
}

TEST(ClientIp, CutsAddressesAsItIsTold) {
  const ClientIp narrow({.ipv4_prefix = 32, .ipv6_prefix = 128});
  EXPECT_EQ(narrow.key("2001:DB8::1"), "2001:db8::1");
  const ClientIp wide({.ipv4_prefix = 24, .ipv6_prefix = 48});
  EXPECT_EQ(wide.key("203.0.113.7"), "203.0.113.0/24");
  EXPECT_EQ(wide.key("::ffff:203.0.113.7"), "203.0.113.0/24");
  EXPECT_EQ(wide.key("2001:db8:1:2::3"), "2001:db8:1::/48");
}

TEST(ClientIp, APeerWithoutAddressIsItsOwnKey) {
  const ClientIp client_ip;
  for (const std::string_view peer : {"", "unix:", "/run/a.sock", "localhost", "01.2.3.4"}) {
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

TEST(ClientIp, IsTheLastFoundWhereOneCannotBeRead) {
  for (const std::string_view item :
       {"unknown", "_secret", "client.example", "1.2.3", "10.0.0.01", "[::1", "1.2.3.4:x",
        "\"::1\"", "for=1.2.3.4", "1.2.3.4;5.6.7.8", "6.6.6.6 1.2.3.4", "\xff\xfe", "\r\n"}) {
    const std::string line = "6.6.6.6, " + std::string(item);
    EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line}), "10.0.0.1") << item;
    EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line + ", 10.2.2.2"}), "10.2.2.2") << item;
    EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line, "10.2.2.2"}), "10.2.2.2") << item;
    EXPECT_EQ(behind_proxies().key("10.0.0.1", Lines{line + ", 203.0.113.7"}), "203.0.113.7");
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

TEST(ClientIp, RefusesInvalidOptions) {
  EXPECT_EQ(error_of_options({.trusted_proxies = {"10.0.0.0/8", "10.0.0.1/8"}}),
            "\"10.0.0.1/8\" is not a trusted proxy: it has bits beyond its length, "
            "write 10.0.0.0/8");
  EXPECT_THAT(error_of_options({.trusted_proxies = {"0.0.0.0/0"}}), HasSubstr("every address"));
  EXPECT_THAT(error_of_options({.trusted_proxies = {""}}),
              StartsWith("\"\" is not a trusted proxy"));
  EXPECT_THAT(error_of_options({.trusted_proxies = {"unix:/run/a"}}),
              HasSubstr("write an address"));
  EXPECT_THAT(error_of_options({.trusted_proxies = {"a\nb" + std::string(100, 'c')}}),
              AllOf(StartsWith("\"a\\x0ab"), HasSubstr("…\""), Not(HasSubstr("\n"))));
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

RC_GTEST_PROP(ClientIp, ANetworkOf64BitsIsOneClient, (const Groups& one, Groups other)) {
  std::copy(one.begin(), one.begin() + 4, other.begin());
  const ClientIp client_ip;
  const std::string key = client_ip.key(public_text(one));
  RC_ASSERT(client_ip.key(public_text(other)) == key);
  RC_ASSERT(key.ends_with("::/64"));
  // The key begins with the network's address, which has the same key.
  RC_ASSERT(client_ip.key(key.substr(0, key.size() - 3)) == key);
  ++other[3];
  RC_ASSERT(client_ip.key(public_text(other)) != key);
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
  using namespace std::string_view_literals;
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

RC_GTEST_PROP(ClientIp, WhoIsNoProxyCannotChooseItsKey,
              (const std::vector<std::string>& header, const Groups& client)) {
  const Lines lines(header.begin(), header.end());
  const std::string peer = public_text(client);
  RC_ASSERT(behind_proxies().key(peer, lines) == ClientIp().key(peer));
}

}  // namespace
}  // namespace sluice

#include "net/name_lookup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <new>
#include <string>
#include <vector>

namespace sluice {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

Endpoint host(const std::string& name) {
  return {.host = name, .port = 80};
}

std::vector<std::string> texts(const FoundAddresses& found) {
  std::vector<std::string> texts;
  for (const SocketAddress& address : found.addresses) texts.push_back(address.text());
  return texts;
}

TEST(SocketAddressTest, KnowsNumericAddressesAndPaths) {
  EXPECT_THAT(texts(known_address(host("127.0.0.1")).value()), testing::ElementsAre("127.0.0.1"));
  EXPECT_THAT(texts(known_address(host("::1")).value()), testing::ElementsAre("::1"));
  const Endpoint path{.unix_path = "/tmp/a.sock"};
  EXPECT_EQ(known_address(path).value().addresses.at(0).family(), AF_UNIX);
  const Endpoint long_path{.unix_path = std::string(200, 'x')};
  EXPECT_EQ(known_address(long_path).value().fault,
            "its path has 200 bytes, a socket's has 107 at most");
  EXPECT_FALSE(known_address(host("localhost")).has_value());
}

TEST(NameLookupTest, FindsLocalhost) {
  EventLoop loop;
  FoundAddresses found;
  NameLookup lookup(loop, host("localhost"), [&](FoundAddresses addresses) {
    found = std::move(addresses);
    loop.stop();
  });
  loop.run();
  EXPECT_THAT(texts(found), Contains("127.0.0.1"));
  EXPECT_EQ(found.fault, "");
}

TEST(NameLookupTest, SaysWhyThereIsNoAddress) {
  EventLoop loop;
  FoundAddresses found;
  NameLookup lookup(loop, host("no host has blanks"), [&](FoundAddresses addresses) {
    found = std::move(addresses);
    loop.stop();
  });
  loop.run();
  EXPECT_THAT(found.addresses, IsEmpty());
  EXPECT_THAT(found.fault, Not(IsEmpty()));
}

TEST(NameLookupTest, AnswersThoughThereIsNoMemoryForTheAnswer) {
  EventLoop loop;
  FoundAddresses found;
  NameLookup lookup(
      loop, host("localhost"),
      [&](FoundAddresses addresses) {
        found = std::move(addresses);
        loop.stop();
      },
      [](const Endpoint&) -> FoundAddresses { throw std::bad_alloc(); });
  loop.run();
  EXPECT_THAT(found.addresses, IsEmpty());
  EXPECT_EQ(found.fault, "there is no memory for it");
}

TEST(NameLookupTest, ManyAtOnceAreAllAnsweredThoughFewAreAskedAtOnce) {
  EventLoop loop;
  std::size_t answers = 0;
  std::vector<std::unique_ptr<NameLookup>> lookups(50);
  for (std::unique_ptr<NameLookup>& lookup : lookups) {
    lookup =
        std::make_unique<NameLookup>(loop, host("localhost"), [&](const FoundAddresses& addresses) {
          EXPECT_THAT(texts(addresses), Contains("127.0.0.1"));
          lookup.reset();
          if (++answers == lookups.size()) loop.stop();
        });
  }
  loop.run();
  EXPECT_EQ(answers, lookups.size());
}

TEST(NameLookupTest, MayBeForgottenWithItsLoop) {
  bool found = false;
  for (int i = 0; i < 20; ++i) {
    EventLoop loop;
    NameLookup lookup(loop, host("localhost"), [&](const FoundAddresses&) { found = true; });
  }
  EXPECT_FALSE(found);
}

}  // namespace
}  // namespace sluice

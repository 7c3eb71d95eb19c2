#include "stores/memcached/memcached_space.h"

#include <gtest/gtest.h>

#include "sluice/limit.h"

namespace sluice::memcached {
namespace {

std::string name(std::string_view key, std::string_view limit_name = "login",
                 std::string_view prefix = "sluice") {
  const MemcachedSpace space(prefix, Limit("token_bucket 5/1s", limit_name).definition());
  std::string text;
  space.name_of(key, text);
  return text;
}

TEST(MemcachedSpace, NamesAreReadable) {
  EXPECT_EQ(name("alice"), "sluice:login:alice");
  EXPECT_EQ(name(""), "sluice:login:");
  EXPECT_EQ(name("203.0.113.7:80/a%20b~"), "sluice:login:203.0.113.7:80/a%20b~");
}

TEST(MemcachedSpace, AnUnnamedLimitIsItsExpressionWithoutBlanks) {
  EXPECT_EQ(name("alice", ""), "sluice:token_bucket%205/1s:alice");
}

TEST(MemcachedSpace, EachByteIsLookedAt) {
  for (const std::size_t at : {0, 1, 2}) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string key = "~!~";
      key[at] = static_cast<char>(byte);
      const bool plain = byte > ' ' && byte <= '~';
      ASSERT_EQ(name(key).starts_with("sluice::"), !plain) << byte << " at " << at;
    }
  }
}

// As `printf 'sluice:login:a b' | sha256sum` says.
TEST(MemcachedSpace, TheHashIsTheFirstHalfOfSha256) {
  EXPECT_EQ(name("a b"), "sluice::7d2a8863986d5ac55cbaee13b780b419");
}

TEST(MemcachedSpace, TheLongestKeyIsNotHashed) {
  const std::string front = "sluice:login:";
  EXPECT_EQ(name(std::string(kMaxKeyBytes - front.size(), 'k')).size(), kMaxKeyBytes);
  EXPECT_TRUE(name(std::string(kMaxKeyBytes - front.size() + 1, 'k')).starts_with("sluice::"));
}

TEST(MemcachedSpace, NoReadableKeyLooksLikeAHash) {
  // A space is never empty, so that the text after the prefix's ':' is never another ':'.
  EXPECT_EQ(name(":" + name("a b").substr(8), "x"), "sluice:x::" + name("a b").substr(8));
}

TEST(MemcachedSpace, KnowsPrefixes) {
  EXPECT_TRUE(is_prefix("sluice"));
  EXPECT_TRUE(is_prefix(std::string(64, 'p')));
  for (const std::string& text : {std::string(), std::string(65, 'p'), std::string("a:b"),
                                  std::string("a b"), std::string("caf\xc3\xa9")}) {
    EXPECT_FALSE(is_prefix(text)) << text;
  }
}

}  // namespace
}  // namespace sluice::memcached

#include "service/overrides.h"

#include <gtest/gtest.h>

#include <string>

namespace sluice {
namespace {

TEST(Overrides, APatternMatchesAnyCharactersForItsStars) {
  EXPECT_TRUE(matches("internal:*", "internal:"));
  EXPECT_TRUE(matches("internal:*", "internal:a:b"));
  EXPECT_FALSE(matches("internal:*", "xinternal:a"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("**", "anything"));
  EXPECT_TRUE(matches("*.example", "a.b.example"));
  EXPECT_FALSE(matches("*.example", "a.example.b"));
  EXPECT_TRUE(matches("a*b*c", "abc"));
  EXPECT_TRUE(matches("a*b*c", "a-b-bb-c"));
  EXPECT_FALSE(matches("a*b*c", "acb"));
  // The head and the tail share no character, nor do the pieces between them.
  EXPECT_FALSE(matches("aba*aba", "ababa"));
  EXPECT_FALSE(matches("*ab*ab*", "abb"));
  EXPECT_TRUE(matches("*ab*ab*", "abab"));
  EXPECT_FALSE(matches("plain", "plainer"));
  EXPECT_TRUE(matches("plain", "plain"));
  // No other character is special.
  EXPECT_FALSE(matches("a?c*", "abc"));
  EXPECT_TRUE(matches("[a].*", "[a].b"));
}

using Kind = LimitOverride::Kind;

/// Rules that differ in their kind.
KeyRule rule(Kind kind) {
  return {{Limit("token_bucket 1/1s", "api"), nullptr}, kind};
}

TEST(Overrides, AnExactKeyWinsOverEveryPatternAndThenTheFirstPattern) {
  Overrides overrides;
  overrides.add("team:*", rule(Kind::kAllowAll));
  overrides.add("team:red:*", rule(Kind::kDeny));
  overrides.add("team:red:7", rule(Kind::kLimit));
  EXPECT_EQ(overrides.find("team:red:7")->kind, Kind::kLimit);
  EXPECT_EQ(overrides.find("team:red:8")->kind, Kind::kAllowAll);
  EXPECT_EQ(overrides.find("team:blue")->kind, Kind::kAllowAll);
  EXPECT_EQ(overrides.find("other"), nullptr);
}

}  // namespace
}  // namespace sluice

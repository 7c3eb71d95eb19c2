#include "service/overrides.h"

#include <gtest/gtest.h>

#include <ctime>
#include <string>
#include <string_view>

namespace sluice {
namespace {

TEST(Overrides, APatternMatchesAnyCharactersForItsStars) {
  EXPECT_TRUE(matches("internal:*", "internal:"));
  EXPECT_TRUE(matches("internal:*", "internal:a:b"));
  EXPECT_FALSE(matches("internal:*", "xinternal:a"));
  EXPECT_TRUE(matches("*", ""));
  EXPECT_TRUE(matches("**", "anything"));
  EXPECT_TRUE(matches("a**b", "ab"));
  EXPECT_TRUE(matches("**", std::string_view()));
  EXPECT_FALSE(matches("*a*", std::string_view()));
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

// The processor time is compared with that of a key of other characters, for which the search is
// fast in any case.
TEST(Overrides, AKeyOfOneCharacterTakesNoLongerThanOthers) {
  const auto time_of = [](char character) {
    const std::string key(60'000, character);
    const std::clock_t begin = std::clock();
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(matches("*:team-042:*", key));
    return std::clock() - begin;
  };
  EXPECT_LT(time_of(':'), 20 * (time_of('x') + CLOCKS_PER_SEC / 1'000));
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

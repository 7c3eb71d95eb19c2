#include "service/overrides.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <ctime>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

using Kind = LimitOverride::Kind;
using Rules = std::vector<std::pair<std::string, KeyRule>>;

/// Rules that differ in their kind.
KeyRule rule(Kind kind) {
  return {{Limit("token_bucket 1/1s", "api"), nullptr}, kind};
}

TEST(Overrides, AnExactKeyWinsOverEveryPatternAndThenTheFirstPattern) {
  const Overrides overrides(Rules{{"team:*", rule(Kind::kAllowAll)},
                                  {"team:red:*", rule(Kind::kDeny)},
                                  {"team:red:7", rule(Kind::kLimit)}});
  EXPECT_EQ(overrides.find("team:red:7")->kind, Kind::kLimit);
  EXPECT_EQ(overrides.find("team:red:8")->kind, Kind::kAllowAll);
  EXPECT_EQ(overrides.find("team:blue")->kind, Kind::kAllowAll);
  EXPECT_EQ(overrides.find("other"), nullptr);
  // The pieces between the stars share no character.
  EXPECT_EQ(Overrides(Rules{{"*aba*aba*", rule(Kind::kDeny)}}).find("ababa"), nullptr);
}

std::string text_of(const std::string& letters, std::size_t most) {
  return *rc::gen::resize(static_cast<int>(most),
                          rc::gen::container<std::string>(rc::gen::elementOf(letters)));
}

RC_GTEST_PROP(Overrides, FindTheFirstPatternThatMatches, ()) {
  Rules rules;
  const std::size_t patterns = *rc::gen::inRange<std::size_t>(1, 8);
  for (std::size_t i = 0; i < patterns; ++i) {
    rules.emplace_back(text_of("ab**", 8) + "*", rule(Kind::kDeny));
    rules.back().first += text_of("ab*", 3);
    rules.back().second.limit = Limit("token_bucket 1/1s", "rule" + std::to_string(i));
  }
  const std::string key = text_of("ab", 20);
  std::string expected;
  for (const auto& [pattern, each] : rules) {
    if (expected.empty() && matches(pattern, key)) expected = each.limit.space();
  }
  const Overrides overrides(rules);
  const KeyRule* const found = overrides.find(key);
  RC_ASSERT((found == nullptr ? "" : found->limit.space()) == expected);
}

// Each character of the key may begin one of the pieces. The processor time is compared with that
// of a search that looks for nothing.
TEST(Overrides, ManyPatternsTakeNoLongerForAKeyThatIsLong) {
  Rules many;
  for (int i = 0; i < 256; ++i) {
    many.emplace_back("*:::team-" + std::to_string(i) + ":*", rule(Kind::kDeny));
  }
  const auto time_of = [](const Rules& rules, char character) {
    const Overrides overrides(rules);
    const std::string key(60'000, character);
    const std::clock_t begin = std::clock();
    for (int i = 0; i < 20; ++i) EXPECT_EQ(overrides.find(key), nullptr);
    return std::clock() - begin;
  };
  const std::clock_t usual = time_of({{"*x*", rule(Kind::kDeny)}}, ':');
  EXPECT_LT(time_of(many, ':'), 20 * (usual + CLOCKS_PER_SEC / 1'000));
  for (auto& [pattern, its] : many) pattern = pattern.substr(5) + "*:*" + pattern;
  EXPECT_LT(time_of(many, ':'), 20 * (usual + CLOCKS_PER_SEC / 1'000));
  for (auto& [pattern, its] : many) pattern = "*:*" + pattern;
  EXPECT_LT(time_of(many, ':'), 20 * (usual + CLOCKS_PER_SEC / 1'000));
}

}  // namespace
}  // namespace sluice

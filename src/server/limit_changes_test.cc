#include "server/limit_changes.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "server/limits_file.h"

namespace sluice {
namespace {

std::string changes(const std::string& before, const std::string& after) {
  return limit_changes(parse_limits("limits: {" + before + "}", "f.yaml"),
                       parse_limits("limits: {" + after + "}", "f.yaml"));
}

TEST(LimitChangesTest, NamesThreeOfEachKind) {
  const std::string three = "a: sliding_log 5/1m, b: sliding_log 5/1m, c: sliding_log 5/1m";
  EXPECT_EQ(changes(three, ""), "limits: 3 removed (a, b, c)");
  EXPECT_EQ(changes(three + ", d: sliding_log 5/1m, e: sliding_log 5/1m", ""),
            "limits: 5 removed (a, b, c and 2 more)");
}

TEST(LimitChangesTest, ComparesAllThatTheFileSays) {
  const std::string same = "the named limits are the same";
  const std::string all =
      "a: {limit: sliding_log 5/1m, key: '{ip}', dry_run: yes, "
      "overrides: [{key: k, limit: sliding_log 6/1m}, {key: m, deny: yes}]}";
  EXPECT_EQ(changes(all, all), same);
  EXPECT_EQ(changes("a: sliding_log 5/1m", "a: {limit: sliding_log 5/60s}"), same);
  const std::vector<std::pair<std::string, std::string>> edits = {
      {"log 5", "log 4"},   {"{ip}", "{path}"}, {"yes", "no"},
      {"key: k", "key: l"}, {"log 6", "log 7"}, {"deny", "unlimited"}};
  for (const auto& [from, to] : edits) {
    std::string other = all;
    other.replace(other.find(from), from.size(), to);
    EXPECT_EQ(changes(all, other), "limits: 1 changed (a)") << other;
  }
}

TEST(LimitChangesTest, NamesThoseWhoseKeysStartFresh) {
  const std::string before = "a: sliding_log 5/1m, b: fixed_window 5/1m, c: token_bucket 5/1m";
  EXPECT_EQ(changes(before, "a: sliding_log 6/1m, b: fixed_window 5/2m, c: sliding_log 5/1m"),
            "limits: 1 changed (a), 2 changed with fresh keys (b, c)");
}

}  // namespace
}  // namespace sluice

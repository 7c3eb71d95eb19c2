#include "core/near_miss.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr std::array<std::string_view, 4> kNames{"token_bucket", "login", "log", "api"};

TEST(NearMiss, FindsTheNameThatWasMeant) {
  for (const std::string_view text : {"tokenbucket", "token-bucket", "tokn_bucket", "tokne_bucket",
                                      "token_buckets", "token_bukcte"}) {
    EXPECT_EQ(find_near_miss(text, kNames), "token_bucket") << text;
  }
  EXPECT_EQ(find_near_miss("lgoin", kNames), "login");
  EXPECT_EQ(find_near_miss("logn", kNames), "login");
  EXPECT_EQ(find_near_miss("lg", kNames), "log");
  EXPECT_EQ(find_near_miss("LOGIN", kNames), "login");
  EXPECT_EQ(find_near_miss("lgoin", {{"Login", "LOG"}}), "Login");
}

TEST(NearMiss, FindsNoNameThatIsFar) {
  for (const std::string_view text : {"", "x", "ap12", "bucket", "signup", "tkn_bukt"}) {
    EXPECT_EQ(find_near_miss(text, kNames), "") << text;
  }
  EXPECT_EQ(find_near_miss(std::string(1'000, 'a'), kNames), "");
  EXPECT_EQ(find_near_miss("login", {}), "");
}

// How many edits make one text the other, by a matrix of all their beginnings.
std::size_t edits_between(const std::string& a, const std::string& b) {
  std::vector<std::vector<std::size_t>> rows(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) {
    for (std::size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        rows[i][j] = i + j;
        continue;
      }
      const std::size_t changed = rows[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      rows[i][j] = std::min({rows[i - 1][j] + 1, rows[i][j - 1] + 1, changed});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        rows[i][j] = std::min(rows[i][j], rows[i - 2][j - 2] + 1);
      }
    }
  }
  return rows[a.size()][b.size()];
}

// Names of few different letters, so that many have few edits between them.
TEST(NearMiss, CountsTheEditsOfAllTexts) {
  std::mt19937 random(1);
  const auto name = [&](std::size_t longest) {
    std::string text(random() % (longest + 1), '\0');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 2);
    return text;
  };
  int near = 0;
  for (int i = 0; i < 20'000; ++i) {
    const std::string text = name(i % 2 == 0 ? 8 : 64);
    std::string other = i % 2 == 0 ? name(8) : text;
    for (unsigned edits = random() % 4; i % 2 != 0 && edits > 0 && !other.empty(); --edits) {
      const std::size_t at = random() % other.size();
      random() % 2 == 0 ? other.erase(at, 1).append("c") : other.replace(at, 1, "ab");
    }
    if (other.size() > 64) continue;
    const std::size_t edits = edits_between(text, other);
    const bool is_near = edits <= 2 && 3 * edits <= std::max(text.size(), other.size());
    const std::string_view names[] = {other};
    // An empty name cannot be told from none.
    if (!other.empty()) EXPECT_EQ(!find_near_miss(text, names).empty(), is_near) << text << other;
    near += is_near ? 1 : 0;
  }
  EXPECT_GT(near, 1'000);
}

TEST(NearMiss, SuggestsIt) {
  EXPECT_EQ(suggest_name("lgoin", kNames), " (did you mean 'login'?)");
  EXPECT_EQ(suggest_name("signup", kNames), "");
}

}  // namespace
}  // namespace sluice

#include "core/near_miss.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

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
}

TEST(NearMiss, FindsNoNameThatIsFar) {
  for (const std::string_view text : {"", "x", "ap12", "bucket", "signup", "tkn_bukt"}) {
    EXPECT_EQ(find_near_miss(text, kNames), "") << text;
  }
  EXPECT_EQ(find_near_miss(std::string(1'000, 'a'), kNames), "");
  EXPECT_EQ(find_near_miss("login", {}), "");
}

TEST(NearMiss, SuggestsIt) {
  EXPECT_EQ(suggest_name("lgoin", kNames), " (did you mean 'login'?)");
  EXPECT_EQ(suggest_name("signup", kNames), "");
}

}  // namespace
}  // namespace sluice

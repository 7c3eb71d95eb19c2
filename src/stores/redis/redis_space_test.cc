#include "stores/redis/redis_space.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include "sluice/limit.h"

namespace sluice::redis {
namespace {

std::string encoded(std::string_view name) {
  std::string output;
  append_encoded(output, name);
  return output;
}

// The name that was encoded, read back: "%" and two hexadecimal digits are a byte.
std::string decoded(const std::string& name) {
  std::string output;
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (name[i] != '%') {
      output += name[i];
      continue;
    }
    output += static_cast<char>(std::stoi(name.substr(i + 1, 2), nullptr, 16));
    i += 2;
  }
  return output;
}

TEST(RedisSpace, HasBracesOnlyAroundTheKey) {
  EXPECT_EQ(encoded("{a}%"), "%7Ba%7D%25");
  EXPECT_EQ(encoded("alice"), "alice");
  LimitDefinition limit = Limit("fixed_window 5/1m").definition();
  limit.space = "a{b}";
  const RedisSpace space("50%{p}", limit);
  EXPECT_EQ(space.front(), "50%25%7Bp%7D:a%7Bb%7D:{");
  EXPECT_EQ(redis_key(space, "{a}%"), space.front() + "%7Ba%7D%25}");
}

RC_GTEST_PROP(RedisSpace, TellsAllNamesApart, (const std::string& name)) {
  const std::string text = encoded(name);
  RC_ASSERT(text.find_first_of("{}") == std::string::npos);
  RC_ASSERT(text.size() == encoded_bytes(name));
  RC_ASSERT(decoded(text) == name);
}

}  // namespace
}  // namespace sluice::redis

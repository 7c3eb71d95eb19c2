#include "stores/redis/redis_key.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

namespace sluice::redis {
namespace {

std::string encoded(std::string_view name) {
  std::string output;
  append_encoded(output, name);
  return output;
}

// The name that was encoded, read back as anyone would: "%" and two hexadecimal digits are a byte.
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

TEST(RedisKey, HasBracesOnlyAroundTheKey) {
  EXPECT_EQ(encoded("{a}%"), "%7Ba%7D%25");
  EXPECT_EQ(encoded("alice"), "alice");
  EXPECT_EQ(key_front("50%{p}"), "50%25%7Bp%7D:");
}

RC_GTEST_PROP(RedisKey, TellsAllNamesApart, (const std::string& name)) {
  const std::string text = encoded(name);
  RC_ASSERT(text.find_first_of("{}") == std::string::npos);
  RC_ASSERT(text.size() == encoded_bytes(name));
  RC_ASSERT(decoded(text) == name);
}

// Neighbours of what is encoded among them, and the same with the upper bit set.
RC_GTEST_PROP(RedisKey, CountsWhatIsEncodedWhereverItStands, ()) {
  const auto name = *rc::gen::container<std::string>(
      rc::gen::element('{', '}', '%', 'z', '|', '~', '$', '&', '\xFB', '\xFD', '\xA5', '\0'));
  RC_ASSERT(encoded(name).size() == encoded_bytes(name));
}

}  // namespace
}  // namespace sluice::redis

#include "stores/redis/redis_space.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <set>
#include <string>

#include "sluice/limit.h"
#include "stores/redis/part_codec.h"

namespace sluice::redis {
namespace {

// The name that was encoded, read back: "%" and two hexadecimal digits are a byte, "%" alone is the
// empty name.
std::string decoded(const std::string& name) {
  if (name == "%") return "";
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
  LimitDefinition limit = Limit("fixed_window 5/1m").definition();
  limit.space = "a{b}";
  const RedisSpace space("50%{p}", limit);
  EXPECT_EQ(redis_key(space, "{a}%"), "50%25%7Bp%7D:a%7Bb%7D:{%7Ba%7D%25}");
  EXPECT_EQ(redis_key(space, "alice"), "50%25%7Bp%7D:a%7Bb%7D:{alice}");
}

TEST(RedisSpace, EqualKeysShareASlot) {
  const RedisSpace one("sluice", Limit("fixed_window 5/1m", "one").definition());
  const RedisSpace other("sluice", Limit("fixed_window 5/1m", "other").definition());
  for (const std::string key : {"a", "{a}", "}", "%", ""}) {
    EXPECT_EQ(slot_of(redis_key(one, key)), slot_of(redis_key(other, key))) << key;
  }
}

RC_GTEST_PROP(RedisSpace, TellsAllNamesApart, (const std::string& name)) {
  std::string text;
  append_encoded(text, name);
  RC_ASSERT(text.find_first_of("{}") == std::string::npos);
  RC_ASSERT(decoded(text) == name);
}

template <class... As>
struct EachCodec {
  static std::multiset<char> letters() { return {PartCodec<As>::letter({})...}; }
};

// A limit goes on from a value that has its letters and its numbers.
TEST(RedisSpace, EachAlgorithmHasALetterOfItsOwn) {
  const auto letters = WithAlgorithms<EachCodec>::letters();
  EXPECT_EQ(std::set<char>(letters.begin(), letters.end()).size(), letters.size());
}

TEST(RedisSpace, NamesKeysForAnErrorOnOneLine) {
  const Limit limit("token_bucket 5/1m", "b");
  RedisSpace space("sluice", limit.definition());
  Request requests[2] = {{.space = &space, .key = "a\r\n"}, {.space = &space, .key = ""}};
  EXPECT_EQ(names_of(requests), R"('sluice:b:{a\x0d\x0a}', 'sluice:b:{%}')");
  const std::string long_key(10'000, 'x');
  requests[0].key = long_key;
  EXPECT_LT(names_of(std::span(requests).first(1)).size(), 400U);
}

}  // namespace
}  // namespace sluice::redis

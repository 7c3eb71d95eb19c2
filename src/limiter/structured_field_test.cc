#include "limiter/structured_field.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

namespace sluice {
namespace {

TEST(StructuredField, AStringIsQuotedAndItsQuotesAreEscaped) {
  EXPECT_EQ(structured_string("api"), R"("api")");
  EXPECT_EQ(structured_string(""), R"("")");
  EXPECT_EQ(structured_string(R"(a "b" \c ~)"), R"("a \"b\" \\c ~")");
}

TEST(StructuredField, AStringHasOnlyPrintableAscii) {
  for (const char* text : {"a\nb", "\x1f", "\x7f", "\xc3\xa9", "\t"}) {
    EXPECT_THROW(structured_string(text), std::invalid_argument);
  }
  EXPECT_THROW(structured_string(std::string(1, '\0')), std::invalid_argument);
}

TEST(StructuredField, AnIntegerHasAtMost15Digits) {
  EXPECT_EQ(structured_integer(0), "0");
  EXPECT_EQ(structured_integer(999'999'999'999'999), "999999999999999");
  EXPECT_EQ(structured_integer(1'000'000'000'000'000), "999999999999999");
  EXPECT_EQ(structured_integer(std::numeric_limits<std::int64_t>::max()), "999999999999999");
}

}  // namespace
}  // namespace sluice

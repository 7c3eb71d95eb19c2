#include "replay/text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <string>

#include "replay/progress.h"

namespace sluice::replay {
namespace {

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(Text, PrintableIsSafeForTerminals) {
  EXPECT_EQ(printable("plain ünï→", 40), "plain ünï→");
  EXPECT_EQ(printable("\x1b]0;owned\x07", 40), "\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("a\tb\nc\x7f", 40), "a\\x09b\\x0ac\\x7f");
  EXPECT_EQ(printable("a\\x1b", 40), "a\\\\x1b");
  EXPECT_EQ(printable("\xff\xc3", 40), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b", 40), "\\u{009b}");  // The one-byte CSI.
  EXPECT_EQ(printable("a\xe2\x80\xae"
                      "b",
                      40),
            "a\\u{202e}b");  // Turns the text around.
}

TEST(Text, PrintableCutsWithAnEllipsis) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "1234…");
  EXPECT_EQ(printable("äöüäöü", 5), "äöüä…");
  EXPECT_EQ(printable("12\x1b"
                      "3456",
                      5),
            "12…");
}

TEST(Text, JsonStrings) {
  EXPECT_EQ(json("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json(std::string_view("\0\n\x1f", 3)), R"("\u0000\u000a\u001f")");
  EXPECT_EQ(json("é→😀\x7f"), "\"é→😀\x7f\"");
  EXPECT_EQ(json("a\xff"
                 "b"),
            R"("a\ufffdb")");
  EXPECT_EQ(json("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // A surrogate.
  EXPECT_EQ(json("\xc0\xaf"), R"("\ufffd\ufffd")");            // An overlong slash.
  EXPECT_EQ(json("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
}

TEST(Text, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(percent(0, 0), "0.0 %");
  EXPECT_EQ(percent(1, 3), "33.3 %");
  EXPECT_EQ(percent(1, 1'000'000), "<0.1 %");
  EXPECT_EQ(percent(999'999, 1'000'000), ">99.9 %");
  EXPECT_EQ(percent(5, 5), "100.0 %");
}

TEST(Text, Times) {
  EXPECT_EQ(utc_second(0), "1970-01-01 00:00:00");
  EXPECT_EQ(utc_second(1'431'857'103'999'999'999), "2015-05-17 10:05:03");
  EXPECT_EQ(utc_second(kEndOfTime - 1), "2116-02-20 23:53:38");
}

TEST(Text, ProgressShowsTheShareOfKnownBytes) {
  EXPECT_EQ(progress_text({.bytes = 50, .lines = 1234}, 200),
            "[#######                       ]  25 %  1,234 lines");
  EXPECT_EQ(progress_text({.bytes = 500, .lines = 1}, 200),
            "[##############################] 100 %  1 lines");
  EXPECT_EQ(progress_text({.bytes = 0, .lines = 1234}, 0), "1,234 lines");
}

RC_GTEST_PROP(Text, AnyBytesBecomeValidJson, (const std::string& text)) {
  boost::json::error_code error;
  const auto value = boost::json::parse(json(text), error);
  RC_ASSERT(!error);
  const bool is_ascii = std::all_of(text.begin(), text.end(),
                                    [](char c) { return static_cast<signed char>(c) >= 0; });
  if (is_ascii) RC_ASSERT(std::string(value.as_string().c_str(), value.as_string().size()) == text);
}

RC_GTEST_PROP(Text, PrintableHasNoControlCharacters, (const std::string& text)) {
  const std::string shown = printable(text, 50);
  RC_ASSERT(std::none_of(shown.begin(), shown.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
}

}  // namespace
}  // namespace sluice::replay

#include "core/safe_text.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <string>

namespace sluice {
namespace {

std::string json(std::string_view text) {
  std::string out;
  append_json_string(out, text);
  return out;
}

TEST(SafeText, PrintableIsSafeForTerminals) {
  EXPECT_EQ(printable("plain ünï→", 40), "plain ünï→");
  EXPECT_EQ(printable("\x1b]0;owned\x07", 40), "\\x1b]0;owned\\x07");
  EXPECT_EQ(printable("a\tb\nc\x7f", 40), "a\\x09b\\x0ac\\x7f");
  EXPECT_EQ(printable("a\\x1b", 40), "a\\\\x1b");
  EXPECT_EQ(printable("\xff\xc3", 40), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc2\x9b", 40), "\\u{009b}");  // The one-byte CSI.
  const std::string turns_text_around = {'a', '\xe2', '\x80', '\xae', 'b'};
  EXPECT_EQ(printable(turns_text_around, 40), "a\\u{202e}b");
}

TEST(SafeText, PrintableCutsWithAnEllipsis) {
  EXPECT_EQ(printable("12345", 5), "12345");
  EXPECT_EQ(printable("123456", 5), "1234…");
  EXPECT_EQ(printable("äöüäöü", 5), "äöüä…");
  EXPECT_EQ(printable("12\x1b"
                      "3456",
                      5),
            "12…");
}

TEST(SafeText, ASentenceKeepsItsBackslashes) {
  EXPECT_EQ(printable_sentence("'" + printable("\x1b\\", 40) + "' and \\\n\xff\\"),
            R"('\x1b\\' and \\x0a\xff\)");
  EXPECT_EQ(printable_sentence(""), "");
}

TEST(SafeText, WithoutTheUrlThatMayHaveAPassword) {
  EXPECT_EQ(without_url("--store=redis://:hunter2@h x"), "--store=redis://***");
  EXPECT_EQ(without_url("memory:"), "memory:");
}

TEST(SafeText, JsonStrings) {
  EXPECT_EQ(json("a\"b\\c"), R"("a\"b\\c")");
  EXPECT_EQ(json(std::string_view("\0\n\x1f", 3)), R"("\u0000\u000a\u001f")");
  EXPECT_EQ(json("é→😀\x7f"), R"("é→😀\u007f")");
  EXPECT_EQ(json("\xc2\x9b\xf3\xa0\x81\x81"), R"("\u009b\udb40\udc41")");
  EXPECT_EQ(json("a\xff"
                 "b"),
            R"("a\ufffdb")");
  EXPECT_EQ(json("\xed\xa0\x80"), R"("\ufffd\ufffd\ufffd")");  // A surrogate.
  EXPECT_EQ(json("\xc0\xaf"), R"("\ufffd\ufffd")");            // An overlong slash.
  EXPECT_EQ(json("\xf4\x90\x80\x80"), R"("\ufffd\ufffd\ufffd\ufffd")");
}

RC_GTEST_PROP(SafeText, PrintableHasNoControlCharacters, (const std::string& text)) {
  const std::string shown = printable(text, 50);
  RC_ASSERT(std::none_of(shown.begin(), shown.end(),
                         [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }));
}

}  // namespace
}  // namespace sluice

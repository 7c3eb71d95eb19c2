#include "replay/line_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>
#include <vector>

#include "replay/record.h"
#include "servers/temporary_folder.h"
#include "testing/gzipped.h"

namespace sluice::replay {
namespace {

int opened(const std::string& path) {
  return open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

struct AllLines {
  std::vector<std::string> texts;
  std::string error;
};

AllLines lines_of(std::string_view content) {
  const servers::TemporaryFolder directory;
  LineSource source(opened(directory.write("input", content)));
  AllLines all;
  Line line;
  while (source.next(line)) {
    EXPECT_EQ(line.number, all.texts.size() + 1);
    all.texts.push_back(line.is_too_long ? "(too long)" : std::string(line.text));
  }
  EXPECT_FALSE(source.next(line));
  all.error = source.error();
  return all;
}

using Texts = std::vector<std::string>;

TEST(LineSource, SplitsLines) {
  EXPECT_EQ(lines_of("").texts, Texts{});
  EXPECT_EQ(lines_of("a").texts, Texts{"a"});
  EXPECT_EQ(lines_of("a\n").texts, Texts{"a"});
  EXPECT_EQ(lines_of("\n\na\r\nb\rc\n").texts, (Texts{"", "", "a", "b\rc"}));
  EXPECT_EQ(lines_of("\xEF\xBB\xBFtime\n\xEF\xBB\xBF").texts, (Texts{"time", "\xEF\xBB\xBF"}));
}

TEST(LineSource, KeepsLinesWholeAcrossBlocks) {
  std::string content;
  Texts expected;
  for (std::size_t i = 0; i < 5000; ++i) {
    expected.push_back(std::string(i % 311, static_cast<char>('a' + i % 26)));
    content += expected.back() + "\n";
  }
  EXPECT_EQ(lines_of(content).texts, expected);
}

TEST(LineSource, SkipsLinesThatAreTooLong) {
  const std::string longest(kMaxLineBytes, 'x');
  EXPECT_EQ(lines_of(longest + "\nb").texts, (Texts{longest, "b"}));
  EXPECT_EQ(lines_of("a\nx" + longest + "\nb").texts, (Texts{"a", "(too long)", "b"}));
  EXPECT_EQ(lines_of("a\n" + longest + longest + longest).texts, (Texts{"a", "(too long)"}));
}

TEST(LineSource, DecompressesGzipMembers) {
  const AllLines all = lines_of(gzipped("a\nb") + gzipped("c\nd\n") + gzipped(""));
  EXPECT_EQ(all.texts, (Texts{"a", "bc", "d"}));
  EXPECT_EQ(all.error, "");
}

TEST(LineSource, ReadsPlainTextAfterGzip) {
  const AllLines all = lines_of(gzipped("a\n") + gzipped("b\n") + "c\nd\n");
  EXPECT_EQ(all.texts, (Texts{"a", "b", "c", "d"}));
  EXPECT_EQ(all.error, "");
  const std::string longer(2 * kMaxLineBytes / 3, 'x');
  EXPECT_TRUE(lines_of(gzipped(longer + "\n") + longer + "\n" + longer).texts ==
              (Texts{longer, longer, longer}));
  EXPECT_EQ(lines_of(gzipped("a\n") + "\x1f").texts, (Texts{"a", "\x1f"}));
}

TEST(LineSource, NamesACompressionThatItDoesNotRead) {
  for (const auto& [begin, name] :
       {std::pair("\x28\xb5\x2f\xfd", "zstd"), std::pair("\xfd\x37zXZ", "xz"),
        std::pair("BZh91AY&SY", "bzip2")}) {
    const AllLines all = lines_of(begin + std::string("\na\n"));
    EXPECT_EQ(all.texts, Texts{});
    EXPECT_EQ(all.error, "it is compressed by " + std::string(name) + ", and only gzip is read");
  }
}

// Of tapes and some appliances: the last member is filled up to a whole block.
TEST(LineSource, IgnoresTheZeroesThatEndGzip) {
  const std::string packed = gzipped("a\nb");
  for (const std::size_t zeroes : {1U, 2U, 511U, 300'000U}) {
    const AllLines all = lines_of(packed + std::string(zeroes, '\0'));
    EXPECT_TRUE(all.texts == (Texts{"a", "b"})) << zeroes;
    EXPECT_EQ(all.error, "");
  }
  const std::string zero(1, '\0');
  const AllLines joined = lines_of(packed + zero + gzipped("c\n") + zero + "d");
  EXPECT_EQ(joined.texts, (Texts{"a", "bc", "d"}));
  // Without gzip they are text.
  EXPECT_EQ(lines_of("a\n" + zero + zero).texts, (Texts{"a", zero + zero}));
}

TEST(LineSource, ReportsTruncatedOrDamagedGzipAfterTheReadableLines) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * 7919 % 65'537) + "\n";
  const std::string packed = gzipped(text);
  const AllLines cut = lines_of(packed.substr(0, packed.size() / 2));
  EXPECT_EQ(cut.error, "the gzip data ends too early");
  EXPECT_GT(cut.texts.size(), 1000U);
  std::string damaged = packed;
  damaged[damaged.size() - 6] = static_cast<char>(~damaged[damaged.size() - 6]);
  const AllLines wrong = lines_of(damaged);
  EXPECT_EQ(wrong.error, "the gzip data is damaged");
}

// Wherever the input is cut: the rest of a line may be missing, so it is none.
TEST(LineSource, ALineThatIsCutByAnErrorIsNone) {
  constexpr int kLines = 200;
  Texts whole;
  for (int i = 0; i < kLines; ++i) whole.push_back(std::to_string(1'000'000 + i * 7919));
  std::string text;
  for (const std::string& line : whole) text += line + "\n";
  const std::string packed = gzipped(text);
  for (std::size_t size = packed.size() / 2; size < packed.size(); ++size) {
    const AllLines cut = lines_of(packed.substr(0, size));
    EXPECT_EQ(cut.error, "the gzip data ends too early");
    ASSERT_LE(cut.texts.size(), whole.size());
    EXPECT_TRUE(std::equal(cut.texts.begin(), cut.texts.end(), whole.begin())) << size;
  }
}

TEST(LineSource, LooksAheadToNoLineThatIsCutByAnError) {
  const servers::TemporaryFolder directory;
  const std::string packed = gzipped("a\nbcdefgh");
  // All of the text is there, but not the checksum behind it.
  LineSource source(opened(directory.write("input", packed.substr(0, packed.size() - 8))));
  Line line;
  ASSERT_TRUE(source.next(line));
  EXPECT_FALSE(source.extend(line));
  EXPECT_EQ(line.text, "a");
  EXPECT_FALSE(source.next(line));
  EXPECT_EQ(source.error(), "the gzip data ends too early");
}

// Another process may have set O_NONBLOCK, which is not the end where nothing has come yet.
TEST(LineSource, ReadsPipes) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  LineSource source(ends[0]);
  const auto written = std::async(std::launch::async, [&] {
    EXPECT_EQ(write(ends[1], "a\nb", 3), 3);
    close(ends[1]);
  });
  Line line;
  ASSERT_TRUE(source.next(line));
  EXPECT_EQ(line.text, "a");
  ASSERT_TRUE(source.next(line));
  EXPECT_EQ(line.text, "b");
  EXPECT_FALSE(source.next(line));
}

TEST(LineSource, ReportsReadErrors) {
  LineSource source(opened("/"));
  Line line;
  EXPECT_FALSE(source.next(line));
  EXPECT_EQ(source.error(), "Is a directory");
}

TEST(LineSource, LooksAheadWithoutConsuming) {
  const servers::TemporaryFolder directory;
  LineSource source(opened(directory.write("input", "a\nb\nc\nd\n")));
  Line line;
  ASSERT_TRUE(source.next(line));
  ASSERT_TRUE(source.extend(line));
  EXPECT_EQ(line.text, "a\nb");
  ASSERT_TRUE(source.extend(line));
  EXPECT_EQ(line.text, "a\nb\nc");
  ASSERT_TRUE(source.next(line));
  EXPECT_EQ(line.text, "b");
  ASSERT_TRUE(source.extend(line));
  source.accept();
  ASSERT_TRUE(source.next(line));
  EXPECT_EQ(line.text, "d");
  EXPECT_EQ(line.number, 4U);
  EXPECT_FALSE(source.extend(line));
}

TEST(LineSource, LookAheadIsBounded) {
  const servers::TemporaryFolder directory;
  const std::string half(kMaxLineBytes / 2, 'x');
  LineSource source(opened(directory.write("input", half + "\n" + half + "\n" + half + "\n")));
  Line line;
  ASSERT_TRUE(source.next(line));
  EXPECT_FALSE(source.extend(line));
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(source.next(line));
    EXPECT_EQ(line.text, half);
  }
  EXPECT_FALSE(source.next(line));
}

}  // namespace
}  // namespace sluice::replay

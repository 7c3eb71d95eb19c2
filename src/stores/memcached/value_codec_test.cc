#include "stores/memcached/value_codec.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace sluice::memcached {
namespace {

constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();

// Around every length, and with bits everywhere.
std::vector<std::uint64_t> numbers() {
  std::vector<std::uint64_t> all{0, 1, 0x5555'5555'5555'5555, 0x2AAA'AAAA'AAAA'AAAA, kMost};
  for (int bits = 7; bits < 63; bits += 7) {
    const std::uint64_t power = std::uint64_t{1} << bits;
    for (const std::uint64_t number : {power - 1, power, power + 1, power + power / 3}) {
      all.push_back(number);
    }
  }
  return all;
}

TEST(ValueCodec, BytesAndTextsAreWrittenAndReadBack) {
  std::string output;
  ValueWriter writer(output);
  writer.bytes(0x01020304, 3);
  writer.text("text");
  EXPECT_EQ(output, "\x04\x03\x02text");
  ValueReader reader(output);
  EXPECT_EQ(reader.bytes(3), 0x020304U);
  EXPECT_EQ(reader.text(4), "text");
  EXPECT_FALSE(reader.failed());
  EXPECT_EQ(reader.text(1), "");
  EXPECT_TRUE(reader.failed());
}

TEST(ValueCodec, NumbersHaveSevenBitsAByte) {
  std::string output;
  ValueWriter writer(output);
  for (const std::uint64_t number : {0, 127, 128, 300, 16'384}) writer.number(number);
  EXPECT_EQ(output, std::string("\0\x7f\x80\x01\xac\x02\x80\x80\x01", 9));
}

// What follows a number neither changes it nor is taken with it.
TEST(ValueCodec, NumbersAreReadBackBeforeAnyBytesUpToTheMost) {
  for (const std::uint64_t number : numbers()) {
    std::string written;
    ValueWriter(written).number(number);
    for (const std::string rest : {"", "\x01", "\x7f\xff\x80\x01\xff\xff\xff\xff\xff"}) {
      const std::string value = written + rest;
      ValueReader reader(value);
      EXPECT_EQ(reader.number(number), number);
      EXPECT_FALSE(reader.failed());
      EXPECT_EQ(reader.text(rest.size()), rest);
      EXPECT_EQ(reader.bytes_left(), 0U);
      if (number == 0) continue;
      ValueReader less(value);
      EXPECT_EQ(less.number(number - 1), 0U);
      EXPECT_TRUE(less.failed());
      EXPECT_EQ(less.bytes_left(), 0U);
    }
  }
}

TEST(ValueCodec, ANumberThatDoesNotEndIsNone) {
  for (std::size_t bytes = 0; bytes < 12; ++bytes) {
    const std::string value(bytes, '\xff');
    ValueReader reader(value);
    EXPECT_EQ(reader.number(kMost), 0U);
    EXPECT_TRUE(reader.failed());
  }
}

}  // namespace
}  // namespace sluice::memcached

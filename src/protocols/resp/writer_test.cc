#include "protocols/resp/writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace sluice::resp {
namespace {

std::string written(Protocol protocol, void (*write)(Writer&)) {
  std::string output;
  Writer writer(output, protocol);
  write(writer);
  return output;
}

TEST(Writer, WritesEveryInteger) {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{9}, std::int64_t{10}, std::int64_t{99}, std::int64_t{100},
        std::int64_t{12'345}, std::int64_t{-1}, std::int64_t{-100},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    std::string output;
    Writer(output, Protocol::kResp2).integer(number);
    EXPECT_EQ(output, ":" + std::to_string(number) + "\r\n");
  }
}

TEST(Writer, KeepsAnErrorInOneLine) {
  EXPECT_EQ(written(Protocol::kResp2, [](Writer& w) { w.error("ERR no '\x1b[31m\xff\\'"); }),
            "-ERR no '\\x1b[31m\\xff\\'\r\n");
  EXPECT_EQ(written(Protocol::kResp2, [](Writer& w) { w.error("ERR no 'a\r\nb'"); }),
            "-ERR no 'a  b'\r\n");
}

TEST(Writer, SpeaksEachProtocol) {
  const auto both = [](void (*write)(Writer&)) {
    return written(Protocol::kResp2, write) + written(Protocol::kResp3, write);
  };
  EXPECT_EQ(both([](Writer& w) { w.null(); }), "$-1\r\n_\r\n");
  EXPECT_EQ(both([](Writer& w) { w.map(7); }), "*14\r\n%7\r\n");
  EXPECT_EQ(both([](Writer& w) { w.set(3); }), "*3\r\n~3\r\n");
  EXPECT_EQ(both([](Writer& w) { w.verbatim("ab"); }), "$2\r\nab\r\n=6\r\ntxt:ab\r\n");
}

}  // namespace
}  // namespace sluice::resp

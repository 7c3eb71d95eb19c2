#include "server/log.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdint>
#include <latch>
#include <sstream>
#include <string>
#include <vector>

namespace sluice {
namespace {

constexpr Instant kTime = 1'795'000'000 * kSecondNs + 7 * kMillisecondNs;

TEST(Log, JsonHasTheTimeTheLevelTheEventAndItsFields) {
  const LogEvent event{LogLevel::kError,
                       "snapshot_written",
                       "wrote \"it\"",
                       {{"keys", std::int64_t{3}}, {"seconds", 0.25}, {"file", "/a b"}}};
  EXPECT_EQ(log_line(event, LogFormat::kJson, kTime),
            R"({"time":"2026-11-18T11:06:40.007Z","level":"error","event":"snapshot_written",)"
            R"("message":"wrote \"it\"","keys":3,"seconds":0.25,"file":"/a b"})"
            "\n");
}

TEST(Log, NoTextBeginsALineOfItsOwn) {
  const LogEvent event{LogLevel::kInfo, "serving", "a\nsluice: b\x1b[2J\xff '\\x0a'"};
  EXPECT_EQ(log_line(event, LogFormat::kText, kTime),
            "sluice: a\\x0asluice: b\\x1b[2J\\xff '\\x0a'\n");
}

/// Takes as many bytes as it has room for.
class Disk : public std::stringbuf {
 public:
  std::streamsize room = 1'000;

 private:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    const auto taken = std::stringbuf::xsputn(bytes, std::min(count, room));
    room -= taken;
    return taken;
  }
};

TEST(Log, GoesOnAfterALineThatCouldNotBeWrittenOrOnlyInPart) {
  Disk disk;
  std::ostream out(&disk);
  Log log(out);
  const auto write = [&](std::streamsize room, const std::vector<std::string>& messages) {
    disk.room = room;
    for (const auto& message : messages) log.write({LogLevel::kInfo, "serving", message});
    EXPECT_TRUE(log.flush());
  };
  write(1'000, {"one"});
  write(0, {"two"});
  write(1'000, {"three"});
  write(9, {"four", "five"});
  write(1'000, {"six", "seven"});
  EXPECT_EQ(disk.str(), "sluice: one\nsluice: three\nsluice: f\nsluice: six\nsluice: seven\n");
}

/// Takes nothing until it is opened.
class ClosedPipe : public std::stringbuf {
 public:
  std::latch open{1};

 private:
  std::streamsize xsputn(const char* bytes, std::streamsize count) override {
    open.wait();
    return std::stringbuf::xsputn(bytes, count);
  }
};

TEST(Log, ItsCallersDoNotWaitForTheStream) {
  ClosedPipe pipe;
  std::ostream out(&pipe);
  Log log(out);
  log.configure({.format = LogFormat::kJson});
  constexpr int kEvents = 400;
  const std::string text(1'000, 'x');
  for (int i = 0; i < kEvents; ++i) log.write({LogLevel::kInfo, "serving", text});
  pipe.open.count_down();
  EXPECT_TRUE(log.flush());
  std::istringstream written(pipe.str());
  std::int64_t lines = 0;
  std::int64_t lost = 0;
  for (std::string line; std::getline(written, line); ++lines) {
    const boost::json::object event = boost::json::parse(line).as_object();
    if (event.at("event") != "log_lines_lost") continue;
    EXPECT_EQ(lost, 0);
    lost = event.at("lines").as_int64();
  }
  EXPECT_GT(lost, 0);
  EXPECT_EQ(lines - 1 + lost, kEvents);
  EXPECT_LE(pipe.str().size(), Log::kMaxWaitingBytes + 2'500);
  EXPECT_GE(pipe.str().size(), Log::kMaxWaitingBytes - 2'500);
}

RC_GTEST_PROP(Log, AnyBytesBecomeOneLineOfJson, (const std::string& text)) {
  const LogEvent event{LogLevel::kInfo, "serving", text, {{"field", text}}};
  std::string line = log_line(event, LogFormat::kJson, kTime);
  RC_ASSERT(line.back() == '\n');
  line.pop_back();
  RC_ASSERT(std::none_of(line.begin(), line.end(), [](unsigned char c) { return c < ' '; }));
  const boost::json::object object = boost::json::parse(line).as_object();
  const bool is_ascii = std::all_of(text.begin(), text.end(), [](signed char c) { return c >= 0; });
  if (is_ascii) RC_ASSERT(object.at("message").as_string() == text);
  RC_ASSERT(object.at("message") == object.at("field"));
}

}  // namespace
}  // namespace sluice

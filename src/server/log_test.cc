#include "server/log.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <boost/json.hpp>
#include <sstream>

namespace sluice {
namespace {

constexpr Instant kTime = 1'795'000'000 * kSecondNs + 7 * kMillisecondNs;

TEST(Log, TextIsTheSentence) {
  const LogEvent event{LogLevel::kWarning, "store_lost", "the store is lost: why"};
  EXPECT_EQ(log_line(event, LogFormat::kText, kTime), "sluice: the store is lost: why\n");
}

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
  const LogEvent event{LogLevel::kInfo, "serving", "a\nsluice: b\x1b[2J\xff"};
  EXPECT_EQ(log_line(event, LogFormat::kText, kTime), "sluice: a\\x0asluice: b\\x1b[2J\\xff\n");
}

TEST(Log, EventsBelowTheLevelAreLeftOut) {
  std::ostringstream out;
  Log log(out);
  log.write({LogLevel::kInfo, "serving", "one"});
  log.configure({.level = LogLevel::kWarning});
  log.write({LogLevel::kInfo, "serving", "two"});
  log.write({LogLevel::kWarning, "store_lost", "three"});
  log.configure({.format = LogFormat::kJson});
  log.write({LogLevel::kInfo, "serving", "four"});
  EXPECT_EQ(out.str().substr(0, out.str().find('{')), "sluice: one\nsluice: three\n");
  EXPECT_NE(out.str().find(R"("message":"four"})"), std::string::npos);
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

TEST(Log, GoesOnAfterALineThatCouldNotBeWritten) {
  Disk disk;
  std::ostream out(&disk);
  Log log(out);
  log.write({LogLevel::kInfo, "serving", "one"});
  disk.room = 0;
  log.write({LogLevel::kInfo, "serving", "two"});
  disk.room = 1'000;
  log.write({LogLevel::kInfo, "serving", "three"});
  EXPECT_EQ(disk.str(), "sluice: one\nsluice: three\n");
}

TEST(Log, BeginsANewLineAfterOneThatWasWrittenInPart) {
  Disk disk;
  std::ostream out(&disk);
  Log log(out);
  disk.room = 9;
  log.write({LogLevel::kInfo, "serving", "one"});
  log.write({LogLevel::kInfo, "serving", "two"});
  disk.room = 1'000;
  log.write({LogLevel::kInfo, "serving", "three"});
  log.write({LogLevel::kInfo, "serving", "four"});
  EXPECT_EQ(disk.str(), "sluice: o\nsluice: three\nsluice: four\n");
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

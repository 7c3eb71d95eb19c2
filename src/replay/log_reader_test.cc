#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <string>

#include "testing/read_line.h"

namespace sluice::replay {
namespace {

constexpr std::string_view kCombinedLine =
    "83.149.9.216 - frank [17/May/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 200 203023 "
    "\"http://example.com/\" \"Mozilla/5.0 (X11; Linux)\"";

/// What follows the user in a line of the common format.
constexpr std::string_view kRest = " [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.0\" 200 1";

using Fields = std::vector<std::string>;

std::string line_fault(std::string_view line) {
  const auto reader = make_log_reader(Format::kCombined);
  return read_line(*reader, line).reason;
}

/// The fields of a line of the common format that begins with these words; or what is wrong.
Fields fields_of(const std::string& words, const std::vector<std::string_view>& names) {
  const auto reader = make_log_reader(Format::kCommon);
  const ReadLine read = read_line(*reader, words + std::string(kRest), names);
  return read.reading == Reading::kRecord ? read.fields : Fields{read.reason};
}

Instant time_of(std::string_view time) {
  const auto reader = make_log_reader(Format::kCommon);
  const ReadLine read =
      read_line(*reader, "h - - [" + std::string(time) + "] \"GET / HTTP/1.1\" 200 1");
  return read.reading == Reading::kRecord ? read.record.time_ns : -1;
}

TEST(LogReader, ReadsEveryFieldOfACombinedLine) {
  const auto reader = make_log_reader(Format::kCombined);
  const ReadLine read = read_line(*reader, kCombinedLine,
                                  {"ip", "ident", "user", "time", "method", "path", "protocol",
                                   "status", "bytes", "request", "vhost", "referer", "user_agent"});
  ASSERT_EQ(read.reading, Reading::kRecord) << read.reason;
  EXPECT_EQ(read.record.time_ns, 1'431'857'103 * kSecondNs);
  EXPECT_EQ(read.record.cost, 1);
  EXPECT_EQ(read.fields, (Fields{"83.149.9.216", "-", "frank", "17/May/2015:10:05:03 +0000", "GET",
                                 "/a?b=c", "HTTP/1.1", "200", "203023", "GET /a?b=c HTTP/1.1", "-",
                                 "http://example.com/", "Mozilla/5.0 (X11; Linux)"}));
}

TEST(LogReader, ReadsACommonLineAndIgnoresTheRest) {
  const auto reader = make_log_reader(Format::kCommon);
  const std::string common = "::1 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.0\" 304 -";
  for (const std::string& line : {common, common + " \"-\" \"curl\"", common + " 0.003"}) {
    const ReadLine read = read_line(*reader, line, {"ip", "bytes"});
    ASSERT_EQ(read.reading, Reading::kRecord) << read.reason;
    EXPECT_EQ(read.fields, (Fields{"::1", "-"}));
  }
  EXPECT_FALSE(reader->slot("referer").has_value());
}

TEST(LogReader, ACombinedLineMayHaveMoreText) {
  EXPECT_EQ(line_fault(std::string(kCombinedLine) + " \"10.0.0.1\" 0.25"), "");
}

TEST(LogReader, AUserMayHaveSpacesAndBrackets) {
  for (const std::string user :
       {"John Q. Public", "a[b", "x [y", "x [17/May/2015:10:05:03 +0000] y",
        "x [17/May/2015:10:05:03 +0000", " [", "\"\"", ""}) {
    EXPECT_EQ(fields_of("h - " + user, {"user"}), Fields{user});
  }
}

// A client chooses the user's name, and must not be able to hide its line. What precedes the ident,
// such as the addresses of proxies, is no part of the name.
TEST(LogReader, AUserMayLookLikeAnIdent) {
  for (const std::string before :
       {"203.0.113.7", "203.0.113.7 10.0.0.1", "203.0.113.7, 10.0.0.1",
        "203.0.113.7, 10.0.0.1, 10.0.0.2", "203.0.113.7, 10.0.0.1 10.0.0.2", "203.0.113.7,",
        "203.0.113.7, 10.0.0.1,", "unknown 10.0.0.1", "example.com:80 203.0.113.7",
        "203.0.113.7:51234 10.0.0.1"}) {
    for (const std::string user : {"a", "a - b", "- - -", "203.0.113.9 - -"}) {
      EXPECT_EQ(fields_of(before + " - " + user, {"ident", "user"}), (Fields{"-", user})) << before;
    }
  }
}

TEST(LogReader, AVirtualHostMayPrecedeTheClient) {
  const auto read = [](const std::string& words) {
    return fields_of(words, {"vhost", "ip", "ident", "user"});
  };
  EXPECT_EQ(read("example.com:80 203.0.113.7 - -"),
            (Fields{"example.com:80", "203.0.113.7", "-", "-"}));
  EXPECT_EQ(read("[2001:db8::1]:443 2001:db8::2 - John Q. Public"),
            (Fields{"[2001:db8::1]:443", "2001:db8::2", "-", "John Q. Public"}));
  for (const std::string host :
       {"127.0.1.1:80", "127.0.1.1:9443", "[::1]:9999", "example.com:51234", "example.com", "web1",
        "10.0.0.x", "7.local.",
        // A client without a forwarded address before that of the connection.
        "-"}) {
    EXPECT_EQ(read(host + " ::1 - -"), (Fields{host, "::1", "-", "-"}));
  }
  EXPECT_EQ(read("203.0.113.7 - -"), (Fields{"-", "203.0.113.7", "-", "-"}));
  EXPECT_EQ(read("example.com:80  - -"), Fields{"no client address"});
}

// Client ports, a forwarded address before that of the proxy, spaces in a user's name.
TEST(LogReader, DoesNotMistakeAClientForAVirtualHost) {
  for (const std::string words :
       {"203.0.113.7:5678 - -", "[2001:db8::1]:443 - -", "unknown - -", "203.0.113.7 10.0.0.1 - -",
        "203.0.113.7, 10.0.0.1 - -", "203.0.113.7, 10.0.0.1, 10.0.0.2 - -",
        "203.0.113.7,10.0.0.1 10.0.0.2 - -", "unknown, 10.0.0.1 - -", "2001:db8::80 10.0.0.1 - -",
        "203.0.113.7:10000 10.0.0.1 - -", "[2001:db8::80]:51234 10.0.0.1 - -",
        "203.0.113.7:000080 10.0.0.1 - -", "client.example:65536 10.0.0.1 - -",
        "client.example: 10.0.0.1 - -", "unknown 10.0.0.1 - -", "client.example bob John Q. Public",
        "client.example - - a"}) {
    EXPECT_EQ(fields_of(words, {"vhost", "ip"}),
              (Fields{"-", words.substr(0, words.find_first_of(", "))}))
        << words;
  }
}

// Otherwise the first word of the prefix would be the client of every request.
TEST(LogReader, RefusesThePrefixesOfOtherPrograms) {
  for (const std::string prefix :
       {"Nov 14 22:13:20 host nginx: ", "web-1  | ",
        "2015-05-17T10:05:03Z host nginx[7]: ", "2015-05-17T10:05:03.1Z stdout F ",
        // One word, as of `docker logs -t`, $msec and $time_iso8601 of nginx, journald, an id.
        "2015-05-17T10:05:03.123456789Z ", "2015-05-17T10:05:03+00:00 ", "1431857103.123 ",
        "1431857103 ", "nginx[7]: "}) {
    for (const std::string client : {"203.0.113.7 - -", "203.0.113.7 - frank"}) {
      EXPECT_EQ(fields_of(prefix + client, {}),
                Fields{"text before the client address that is no virtual host"})
          << prefix << client;
    }
  }
}

TEST(LogReader, KeepsEscapedQuotesInsideAField) {
  const auto reader = make_log_reader(Format::kCombined);
  const ReadLine read = read_line(
      *reader,
      R"(h - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1 "a\\" "say \"hi\" \\\")",
      {"path", "referer", "user_agent"});
  // The user agent's last quote is escaped, so the line was cut off.
  EXPECT_EQ(read.reason, "no \"user agent\" after the referer");
  const ReadLine whole = read_line(
      *reader,
      R"(h - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1 "a\\" "say \"hi\" \\")",
      {"path", "referer", "user_agent"});
  ASSERT_EQ(whole.reading, Reading::kRecord) << whole.reason;
  EXPECT_EQ(whole.fields, (Fields{R"(/\"x\")", R"(a\\)", R"(say \"hi\" \\)"}));
}

TEST(LogReader, SplitsOddRequests) {
  struct Case {
    std::string request, method, path, protocol;
  };
  for (const Case& c :
       {Case{"GET /a b HTTP/1.1", "GET", "/a b", "HTTP/1.1"}, Case{"GET /", "GET", "/", "-"},
        Case{"-", "-", "-", "-"}, Case{"", "-", "-", "-"}, Case{R"(\x16\x03)", "-", "-", "-"}}) {
    const auto reader = make_log_reader(Format::kCommon);
    const ReadLine read =
        read_line(*reader, "h - - [17/May/2015:10:05:03 +0000] \"" + c.request + "\" 400 0",
                  {"request", "method", "path", "protocol"});
    EXPECT_EQ(read.fields, (Fields{c.request, c.method, c.path, c.protocol}));
  }
}

TEST(LogReader, HonoursTheTimeZone) {
  EXPECT_EQ(time_of("01/Jan/1970:00:00:00 +0000"), 0);
  EXPECT_EQ(time_of("17/May/2015:12:05:03 +0200"), 1'431'857'103 * kSecondNs);
  EXPECT_EQ(time_of("17/May/2015:01:35:03 -0830"), 1'431'857'103 * kSecondNs);
  EXPECT_EQ(time_of("29/Feb/2016:23:59:60 +0000"), 1'456'790'400 * kSecondNs);
}

TEST(LogReader, RejectsInvalidTimes) {
  for (const char* time :
       {"29/Feb/2015:10:05:03 +0000", "00/May/2015:10:05:03 +0000", "32/May/2015:10:05:03 +0000",
        "17/Xyz/2015:10:05:03 +0000", "17/may/2015:10:05:03 +0000", "17/ayJ/2015:10:05:03 +0000",
        "17/May/2015:24:05:03 +0000", "17/May/2015:10:60:03 +0000", "17/May/2015:10:05:61 +0000",
        "17/May/2015:10:05:03 00000", "17/May/2015:10:05:03 +2400", "17/May/1969:10:05:03 +0000",
        "01/Jan/1970:00:00:00 +0100", "17/May/2117:10:05:03 +0000", "17/May/20x5:10:05:03 +0000",
        "17-May-2015:10:05:03 +0000", "17/May/2015:-1:05:03 +0000"}) {
    EXPECT_EQ(time_of(time), -1) << time;
  }
}

TEST(LogReader, AnInvalidTimeIsRejectedAgain) {
  const auto reader = make_log_reader(Format::kCommon);
  const auto reading = [&](const std::string& time) {
    return read_line(*reader, "h - - [" + time + "] \"-\" 408 0").reading;
  };
  EXPECT_EQ(reading(std::string(26, '\0')), Reading::kUnreadable);
  EXPECT_EQ(reading("17/May/2015:10:05:03 +0000"), Reading::kRecord);
  for (const char* bad : {"17/May/2015:10:99:03 +0000", "17/Xay/2015:10:05:03 +0000"}) {
    EXPECT_EQ(reading(bad), Reading::kUnreadable);
    EXPECT_EQ(reading(bad), Reading::kUnreadable);
    EXPECT_EQ(reading("17/May/2015:10:05:03 +0000"), Reading::kRecord);
  }
}

TEST(LogReader, SaysWhatIsWrong) {
  EXPECT_EQ(line_fault(""), "an empty line");
  EXPECT_EQ(line_fault("h"), "no client address");
  EXPECT_EQ(line_fault("h - -"), "no [time] after the client address, ident and user");
  EXPECT_EQ(line_fault("h - - [17/May]"), "no time of the form [17/May/2015:10:05:03 +0000]");
  const std::string start = "h - - [17/May/2015:10:05:03 +0000] ";
  EXPECT_EQ(line_fault(start + "GET"), "no \"request\" after the time");
  EXPECT_EQ(line_fault(start + "\"GET /\" x 1"), "no status after the request");
  EXPECT_EQ(line_fault(start + "\"GET /\" 200 1k"), "no number of bytes after the status");
  EXPECT_EQ(line_fault(start + "\"GET /\" 200 1"), "no \"referer\" after the number of bytes");
  EXPECT_EQ(line_fault(start + "\"GET /\" 200 1 \"-\""), "no \"user agent\" after the referer");
}

TEST(LogReader, RejectsEveryTruncationOfALine) {
  const auto reader = make_log_reader(Format::kCombined);
  for (std::size_t size = 0; size < kCombinedLine.size(); ++size) {
    const ReadLine read = read_line(*reader, kCombinedLine.substr(0, size));
    EXPECT_EQ(read.reading, Reading::kUnreadable) << size;
    EXPECT_FALSE(read.reason.empty()) << size;
  }
}

RC_GTEST_PROP(LogReader, AnAlteredLineIsReadOrRejectedWithAReason, ()) {
  std::string line(kCombinedLine);
  const auto edits = *rc::gen::inRange(1, 5);
  for (int i = 0; i < edits; ++i) {
    const auto at = *rc::gen::inRange<std::size_t>(0, line.size());
    line[at] = *rc::gen::oneOf(rc::gen::element(' ', '"', '[', ']', '\\', '\0'),
                               rc::gen::arbitrary<char>());
  }
  const auto reader = make_log_reader(Format::kCombined);
  const ReadLine read = read_line(*reader, line, {"path", "user_agent"});
  RC_ASSERT((read.reading == Reading::kRecord) == read.reason.empty());
}

}  // namespace
}  // namespace sluice::replay

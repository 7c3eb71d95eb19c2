#include "protocols/http/request_parser.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Of the address sanitizer; null without it.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming)
extern "C" __attribute__((weak)) std::size_t __sanitizer_get_current_allocated_bytes();

namespace sluice::http {
namespace {

using testing::HasSubstr;
using Result = RequestParser::Result;

// The text with \r\n for each \n.
std::string crlf(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "\r\n" : std::string(1, c);
  return result;
}

std::string describe(const Message& message) {
  std::string text(message.method);
  text += ' ';
  text += message.target;
  text += message.is_http_1_0 ? " 1.0" : " 1.1";
  text += message.keeps_alive ? " keeps" : " closes";
  text += " host=" + std::string(message.host);
  text += " body=" + std::string(message.body);
  for (const HeaderField& field : message.fields) {
    text += " [" + std::string(field.name) + "=" + std::string(field.value) + "]";
  }
  return text;
}

// Parses bytes that arrive in pieces of this size, each in memory of its own. Returns one line for
// each request or refusal.
std::vector<std::string> read(std::string_view bytes, std::size_t piece_bytes) {
  RequestParser parser;
  std::vector<std::string> found;
  std::string pending;
  for (std::size_t at = 0; at < bytes.size(); at += piece_bytes) {
    pending += bytes.substr(at, piece_bytes);
    Result result = Result::kRequest;
    while (result != Result::kNeedMore && result != Result::kRefused) {
      const std::vector<char> input(pending.begin(), pending.end());
      result = parser.next({input.data(), input.size()});
      EXPECT_LE(parser.consumed(), pending.size());
      if (result == Result::kRequest) found.push_back(describe(parser.message()));
      pending.erase(0, parser.consumed());
      if (result == Result::kRequest && pending.empty()) break;
    }
    if (result == Result::kRefused) {
      found.push_back(std::to_string(parser.problem().status) + " " + parser.problem().detail);
      return found;
    }
  }
  return found;
}

// The same, however the bytes are cut.
std::vector<std::string> read_all(const std::string& bytes) {
  const std::vector<std::string> whole = read(bytes, bytes.size());
  for (std::size_t piece = 1; piece < std::min<std::size_t>(bytes.size(), 300); ++piece) {
    EXPECT_EQ(read(bytes, piece), whole) << "in pieces of " << piece;
  }
  return whole;
}

std::string read_one(std::string_view text) {
  const std::vector<std::string> found = read_all(crlf(text));
  return found.size() == 1 ? found[0] : std::to_string(found.size()) + " requests";
}

TEST(RequestParserTest, ReadsRequests) {
  EXPECT_EQ(read_one("GET /a?b=c HTTP/1.1\nHost: x\n\n"),
            "GET /a?b=c 1.1 keeps host=x body= [Host=x]");
  EXPECT_EQ(read_one("GET / HTTP/1.0\n\n"), "GET / 1.0 closes host= body=");
  EXPECT_EQ(read_one("GET / HTTP/1.0\nConnection: keep-alive\n\n"),
            "GET / 1.0 keeps host= body= [Connection=keep-alive]");
  EXPECT_EQ(read_one("GET / HTTP/1.1\nhost:  x \t\nConnection: close\nEmpty:\n\n"),
            "GET / 1.1 closes host=x body= [host=x] [Connection=close] [Empty=]");
  EXPECT_EQ(read_one("POST / HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello"),
            "POST / 1.1 keeps host=x body=hello [Host=x] [Content-Length=5]");
  EXPECT_EQ(read_one("POST / HTTP/1.1\nHost: x\nContent-Length: 2\nContent-Length: 2\n\nab"),
            "POST / 1.1 keeps host=x body=ab [Host=x] [Content-Length=2] [Content-Length=2]");
  EXPECT_EQ(read_one("\nGET / HTTP/1.1\nHost: x\n\n"), "GET / 1.1 keeps host=x body= [Host=x]");
  EXPECT_EQ(read_one("\n\n\nGET / HTTP/1.1\nHost: x\n\n"), "GET / 1.1 keeps host=x body= [Host=x]");
}

TEST(RequestParserTest, ReadsChunks) {
  const std::string head = "POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n";
  const std::string read = " [Host=x] [Transfer-Encoding=chunked]";
  EXPECT_EQ(read_one(head + "5\nhello\n0\n\n"), "POST / 1.1 keeps host=x body=hello" + read);
  EXPECT_EQ(read_one(head + "2;a=b\nhe\n3\nllo\n0\n\n"),
            "POST / 1.1 keeps host=x body=hello" + read);
  EXPECT_EQ(read_one(head + "0\n\n"), "POST / 1.1 keeps host=x body=" + read);
  EXPECT_EQ(read_one(head + "1;b=\"c\td\"\na\n0\n\n"), "POST / 1.1 keeps host=x body=a" + read);
  // A trailer after the last chunk is not a header of the request.
  EXPECT_EQ(read_one(head + "1\na\n0\nHost: y\nX: y\n\n"), "POST / 1.1 keeps host=x body=a" + read);
}

TEST(RequestParserTest, ReadsWhatIsSentTogether) {
  const std::string get = "GET /1 HTTP/1.1\nHost: x\n\n";
  const std::string post = "POST /2 HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n1\na\n0\n\n";
  const std::string sized = "POST /3 HTTP/1.1\nHost: x\nContent-Length: 1\n\nb";
  EXPECT_THAT(read_all(crlf(get + post + sized + get)),
              testing::ElementsAre(HasSubstr("/1"), HasSubstr("/2 1.1 keeps host=x body=a"),
                                   HasSubstr("/3 1.1 keeps host=x body=b"), HasSubstr("/1")));
}

TEST(RequestParserTest, ReadsWholeTargets) {
  EXPECT_THAT(read_one("GET http://x:80/a?b HTTP/1.1\nHost: x:80\n\n"), HasSubstr("GET /a?b "));
  EXPECT_THAT(read_one("GET http://X HTTP/1.1\nHost: x\n\n"), HasSubstr("GET / "));
  EXPECT_THAT(read_one("OPTIONS * HTTP/1.1\nHost: x\n\n"), HasSubstr("OPTIONS * "));
  EXPECT_THAT(read_one("GET /auth?key={ip} HTTP/1.1\nHost: x\n\n"), HasSubstr("/auth?key={ip} "));
}

TEST(RequestParserTest, RefusesWhatReadersMayUnderstandDifferently) {
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n";
  const auto refused = [&](const std::string& bytes) {
    const std::vector<std::string> found = read_all(bytes);
    EXPECT_EQ(found.size(), 1U) << bytes;
    EXPECT_THAT(found[0], testing::StartsWith("400 ")) << bytes;
    return found[0];
  };
  refused(get + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\na");
  refused(get + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\na");
  refused(get + "Content-Length: 1\r\nContent-Length: 2\r\n\r\na");
  refused(get + "Content-Length: 1, 2\r\n\r\na");
  refused(get + "Content-Length: -1\r\n\r\na");
  refused(get + "Content-Length: +1\r\n\r\na");
  refused(get + "Content-Length: 0x1\r\n\r\na");
  refused(get + "Content-Length: 18446744073709551617\r\n\r\na");
  refused(get + "Content-Length:\r\n\r\n");
  refused(get + "Transfer-Encoding: gzip\r\n\r\n");
  refused(get + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n");
  refused(get + "Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n");
  refused(get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  refused(get + "Transfer-Encoding: \r\n\r\n");
  refused("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n");
  refused("GET / HTTP/1.1\nHost: x\r\n\r\n");
  refused("GET / HTTP/1.1\r\nHost: x\n\r\n");
  refused("GET / HTTP/1.1\r\nHost: x\r\n\n");
  refused("\nGET / HTTP/1.1\r\nHost: x\r\n\r\n");
  refused(get + "A: b\rc\r\n\r\n");
  refused(get + "A : b\r\n\r\n");
  refused(get + " A: b\r\n\r\n");
  refused(get + "A: b\r\n c\r\n\r\n");
  refused(get + ": b\r\n\r\n");
  refused(get + "A\r\n\r\n");
  refused(get + "A: b\x01\r\n\r\n");
  refused(get + std::string("A: b\0\r\n\r\n", 9));
  EXPECT_THAT(refused("GET / HTTP/1.1\r\n\r\n"), HasSubstr("no Host"));
  EXPECT_THAT(refused(get + "Host: x\r\n\r\n"), HasSubstr("more than one Host"));
  EXPECT_THAT(refused("GET http://y/ HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("authority"));
  EXPECT_THAT(refused("GET http://x:80/ HTTP/1.1\r\nHost: x\r\n\r\n"), HasSubstr("authority"));
  refused("CONNECT x:80 HTTP/1.1\r\nHost: x:80\r\n\r\n");
  refused("get / HTTP/1.1\r\nHost: x\r\n\r\n");
  refused("GET /a b HTTP/1.1\r\nHost: x\r\n\r\n");
  refused("GET  / HTTP/1.1\r\nHost: x\r\n\r\n");
  refused("GET / HTTP/1.1 \r\nHost: x\r\n\r\n");
  refused("GET / HTTP/2.0\r\nHost: x\r\n\r\n");
  refused("GET /\r\nHost: x\r\n\r\n");
  refused("\x16\x03\x01 a TLS handshake\r\n\r\n");
  // At once: a Redis client sends nothing else.
  refused("PING\r\n");
  EXPECT_THAT(refused("*1\r\n$4\r\nPING\r\n"), HasSubstr("does not begin with a method"));
}

TEST(RequestParserTest, RefusesBadChunks) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string body :
       {"x\r\na\r\n0\r\n\r\n", "1\r\nab\r\n0\r\n\r\n", "-1\r\na\r\n", "1 \r\na\r\n0\r\n\r\n",
        "1\na\r\n0\r\n\r\n", "10000000000000000\r\na\r\n", "1;b=\"\n\"\r\na\r\n0\r\n\r\n",
        "1;b=\"\x01\"\r\na\r\n0\r\n\r\n", "0\r\nA: b\x01\r\n\r\n"}) {
    const std::vector<std::string> found = read_all(head + body);
    ASSERT_EQ(found.size(), 1U) << body;
    EXPECT_TRUE(found[0].starts_with("400 ") || found[0].starts_with("413 ")) << body << found[0];
  }
}

TEST(RequestParserTest, BoundsWhatItReads) {
  const auto first = [](const std::string& bytes) {
    const std::vector<std::string> found = read(bytes, 1000);
    return found.empty() ? "none" : found[0].substr(0, 3);
  };
  const std::string get = "GET / HTTP/1.1\r\nHost: x\r\n";
  EXPECT_THAT(read("GET /" + std::string(kMaxLineBytes, 'a'), 1000),
              testing::ElementsAre("414 the request line has more than 8192 bytes"));
  EXPECT_EQ(first(get + "A: " + std::string(kMaxLineBytes, 'a')), "431");
  std::string fields;
  while (fields.size() < kMaxHeadBytes) fields += "A: " + std::string(1000, 'a') + "\r\n";
  EXPECT_EQ(first(get + fields), "431");
  std::string many = get;
  for (std::size_t i = 0; i < kMaxFields; ++i) many += "A: a\r\n";
  EXPECT_EQ(first(many + "\r\n"), "431");
  EXPECT_EQ(first(get + "Content-Length: 1048577\r\n\r\n"), "413");
  EXPECT_EQ(first(get + "Transfer-Encoding: chunked\r\n\r\n100001\r\n"), "413");
  std::string chunks = get + "Transfer-Encoding: chunked\r\n\r\n";
  for (int i = 0; i < 17; ++i) chunks += "10000\r\n" + std::string(0x10000, 'a') + "\r\n";
  EXPECT_EQ(first(chunks), "413");
  // What is no text of the body, however it arrives.
  const std::string chunk = get + "Transfer-Encoding: chunked\r\n\r\n1";
  const std::string trailers = chunk + "\r\na\r\n0\r\n" + fields;
  for (const std::string& bytes :
       {chunk + ";a=" + std::string(kMaxHeadBytes, 'a') + "\r\na\r\n", trailers + "\r\n"}) {
    EXPECT_EQ(first(bytes), "431");
    EXPECT_THAT(read(bytes, bytes.size()), testing::ElementsAre(testing::StartsWith("431 ")));
  }
  EXPECT_EQ(first(get + "Content-Length: 1048576\r\n\r\n" + std::string(kMaxBodyBytes, 'a')),
            "GET");
}

// A connection may be idle for minutes after a request. Only the address sanitizer can tell.
TEST(RequestParserTest, KeepsNoLongRequestUntilTheNextOne) {
  if (__sanitizer_get_current_allocated_bytes == nullptr) return;
  const auto kept_after = [](std::size_t field_bytes, std::size_t body_bytes) {
    const std::string body(body_bytes, 'x');
    std::string head = "POST / HTTP/1.1\r\nHost: a\r\n";
    for (int i = 0; i < 4; ++i) head += "A: " + std::string(field_bytes, 'a') + "\r\n";
    head += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    RequestParser parser;
    const std::size_t before = __sanitizer_get_current_allocated_bytes();
    EXPECT_EQ(parser.next(head), body_bytes > 1 ? Result::kHead : Result::kNeedMore);
    EXPECT_EQ(parser.next(body), Result::kRequest);
    EXPECT_EQ(parser.message().body.size(), body.size());
    EXPECT_EQ(parser.next({}), Result::kNeedMore);
    return __sanitizer_get_current_allocated_bytes() - before;
  };
  constexpr std::size_t kFew = 4 * 1024;
  EXPECT_LT(kept_after(1, kMaxBodyBytes), kFew);
  EXPECT_LT(kept_after(kMaxLineBytes - 200, 1), kFew);
}

TEST(RequestParserTest, SaysThatTheHeadOfALongBodyHasCome) {
  const std::string head = "POST / HTTP/1.1\r\nHost: x\r\n";
  for (const std::string length : {"Content-Length: 16385", "Transfer-Encoding: chunked"}) {
    for (const std::string expect : {"", "Expect: 100-continue\r\n"}) {
      RequestParser parser;
      const std::string input = head + expect + length + "\r\n\r\n";
      EXPECT_EQ(parser.next(input), Result::kHead);
      EXPECT_EQ(parser.consumed(), input.size());
      EXPECT_EQ(parser.message().method, "POST");
      EXPECT_EQ(parser.next(""), expect.empty() ? Result::kNeedMore : Result::kContinue);
      EXPECT_EQ(parser.next(""), Result::kNeedMore);
      EXPECT_TRUE(parser.has_part());
    }
  }
  RequestParser parser;
  EXPECT_EQ(parser.next(head + "Content-Length: 16384\r\n\r\n"), Result::kNeedMore);
}

TEST(RequestParserTest, SaysOnceThatTheClientWaits) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
  RequestParser parser;
  EXPECT_EQ(parser.next(head), Result::kContinue);
  EXPECT_EQ(parser.consumed(), head.size());
  EXPECT_TRUE(parser.has_part());
  EXPECT_EQ(parser.next(""), Result::kNeedMore);
  EXPECT_EQ(parser.next("a"), Result::kNeedMore);
  EXPECT_EQ(parser.next("b"), Result::kRequest);
  EXPECT_EQ(parser.message().body, "ab");
  EXPECT_FALSE(parser.has_part());
  // The body has come unasked.
  EXPECT_EQ(parser.next(head + "a"), Result::kNeedMore);
  EXPECT_EQ(parser.next("b"), Result::kRequest);
  EXPECT_EQ(parser.next("GET / HTTP/1.1\r\nHost: x\r\nExpect: tea\r\n\r\n"), Result::kRefused);
  EXPECT_EQ(parser.problem().status, 417);
}

}  // namespace
}  // namespace sluice::http

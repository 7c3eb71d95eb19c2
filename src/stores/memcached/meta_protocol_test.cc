#include "stores/memcached/meta_protocol.h"

#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

namespace sluice::memcached {
namespace {

// A framing that has seen the reply to its handshake.
MetaFraming after_handshake() {
  MetaFraming framing;
  EXPECT_EQ(framing.reply_bytes("VERSION 1.6.13\r\nMN\r\n"), 16U);
  EXPECT_EQ(framing.reply_bytes("MN\r\n"), 4U);
  return framing;
}

TEST(MetaProtocol, WritesCommands) {
  std::string output;
  append_get(output, "k", 0);
  append_set(
      output,
      {.key = "k", .value = "a\r\nb", .expiry_s = 61, .token = 7, .written_s = 1'700'000'000}, 1);
  append_set(output, {.key = "k", .value = "", .expiry_s = 2, .token = std::nullopt}, 2);
  append_delete(output, "k", 9, 3);
  append_claim(output, "k", 4);
  EXPECT_EQ(output,
            "mg k v c f O0\r\n"
            "ms k 4 T61 F1700000000 C7 c O1\r\na\r\nb\r\n"
            "ms k 0 T2 F0 ME c O2\r\n\r\n"
            "md k C9 O3\r\n"
            "md k I O4\r\n");
}

TEST(MetaProtocol, ReadsReplies) {
  // A value may hold what ends lines and calls.
  std::string_view unread =
      "VA 8 c17 f1700000000 O0\r\na\r\nMN\r\nb\r\nEN O1\r\nHD O2\r\nERROR\r\nMN\r\n";
  const auto value = take_reply(unread);
  ASSERT_TRUE(value.has_value());
  EXPECT_EQ(value->code, Code::kValue);
  EXPECT_EQ(value->text, "a\r\nMN\r\nb");
  EXPECT_EQ(value->token, 17U);
  EXPECT_EQ(value->written_s, 1'700'000'000U);
  EXPECT_FALSE(value->is_claimed);
  EXPECT_EQ(value->number, 0U);
  EXPECT_EQ(take_reply(unread)->code, Code::kMiss);
  EXPECT_EQ(take_reply(unread)->number, 2U);
  const auto error = take_reply(unread);
  EXPECT_EQ(error->code, Code::kError);
  EXPECT_EQ(error->text, "ERROR");
  EXPECT_FALSE(error->number.has_value());
  EXPECT_EQ(unread, kEndReply);
  EXPECT_FALSE(take_reply(unread).has_value());
}

TEST(MetaProtocol, PassesOverOtherFlags) {
  std::string_view unread = "HD  kfoo O3 W X c5 \r\nVA 1 c5 Z X\r\na\r\n";
  const auto reply = take_reply(unread);
  ASSERT_TRUE(reply.has_value());
  EXPECT_EQ(reply->code, Code::kDone);
  EXPECT_EQ(reply->number, 3U);
  EXPECT_EQ(reply->token, 5U);
  EXPECT_FALSE(reply->is_claimed);
  EXPECT_TRUE(take_reply(unread)->is_claimed);
}

TEST(MetaProtocol, RefusesWhatIsNoReply) {
  for (std::string_view text :
       {"", "HD", "HD O1\r", "HD O1\n", "hd\r\n", "HDX O1\r\n", "HD O\r\n", "HD O1x\r\n",
        "XX O1\r\n", "HD Ox\r\n", "HD cx\r\n", "VA\r\n", "VA x\r\na\r\n", "VA -1\r\n\r\n",
        "VA 5 O1\r\nabc\r\n", "VA 3 O1\r\nabc\r", "VA 99999999999999999999\r\n\r\n", "12\r\n"}) {
    EXPECT_FALSE(take_reply(text).has_value()) << text;
  }
}

TEST(MetaProtocol, FramesAtEverySplit) {
  const std::string reply =
      "VA 8 c17 O0\r\na\r\nMN\r\nb\r\nEN\r\nHD O2\r\nSERVER_ERROR x\r\nVA 0 O4\r\n\r\nMN\r\n";
  for (std::size_t split = 0; split < reply.size(); ++split) {
    MetaFraming framing = after_handshake();
    EXPECT_EQ(framing.reply_bytes(reply.substr(0, split)), 0U) << split;
    EXPECT_EQ(framing.reply_bytes(reply + "MN\r\n"), reply.size()) << split;
    EXPECT_EQ(framing.reply_bytes("MN\r\n"), 4U) << split;
  }
  MetaFraming framing = after_handshake();
  for (std::size_t size = 0; size < reply.size(); ++size) {
    ASSERT_EQ(framing.reply_bytes(std::string_view(reply).substr(0, size)), 0U);
  }
  EXPECT_EQ(framing.reply_bytes(reply), reply.size());
}

TEST(MetaProtocol, TheHandshakeIsAnsweredByTwoLines) {
  for (const std::string_view line : {"ERROR\r\n", "ERROR Too many open connections\r\n"}) {
    MetaFraming framing;
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(framing.reply_bytes(line.substr(0, 3)), 0U);
      EXPECT_EQ(framing.reply_bytes(line), line.size());
    }
  }
}

TEST(MetaProtocol, RefusesWhatIsNoFrame) {
  for (const std::string& text : {std::string("\n"), std::string("HD\n"), std::string("VA x\r\n"),
                                  std::string("VA\r\n"), std::string("VA 2 O1\r\nabcd"),
                                  std::string("VA 99999999999 O1\r\n"), std::string(3'000, 'x')}) {
    MetaFraming framing = after_handshake();
    EXPECT_EQ(framing.reply_bytes(text), Framing::kMalformed) << text.substr(0, 40);
  }
}

constexpr std::int64_t kNowS = 1'700'000'000;
constexpr Instant kExpiryNow = kNowS * kSecondNs + 123'456'789;

TEST(Expiry, IsTheLifetimeInWholeSecondsAndTwoMore) {
  EXPECT_EQ(expiry_s(0, kExpiryNow), 2);
  EXPECT_EQ(expiry_s(1, kExpiryNow), 3);
  EXPECT_EQ(expiry_s(kSecondNs, kExpiryNow), 3);
  EXPECT_EQ(expiry_s(kSecondNs + 1, kExpiryNow), 4);
}

TEST(Expiry, AboveThirtyDaysIsADate) {
  const std::int64_t last_ns = (kMostRelativeExpiry - 2) * kSecondNs;
  EXPECT_EQ(expiry_s(last_ns, kExpiryNow), kMostRelativeExpiry);
  EXPECT_EQ(expiry_s(last_ns + 1, kExpiryNow), kNowS + kMostRelativeExpiry + 1);
}

TEST(Expiry, IsNeverLaterThanAServerCanRead) {
  EXPECT_EQ(expiry_s(kMaxInt64, kExpiryNow), kLastExpiry);
  EXPECT_EQ(expiry_s(kMaxInt64, kEndOfTime - 1), kLastExpiry);
}

}  // namespace
}  // namespace sluice::memcached

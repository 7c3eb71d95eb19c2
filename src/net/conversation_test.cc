#include "net/conversation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <new>
#include <vector>

#include "net/line_framing_test.h"

namespace sluice {
namespace {

using testing::ElementsAre;

class Words final : public Exchange {
 public:
  explicit Words(std::string text) : text_(std::move(text)) {}
  void write(std::string& output) override {
    output += text_.substr(0, 3);
    if (text_ == "no memory\n") throw std::bad_alloc();
    output += text_.substr(3);
  }
  void on_reply(std::string_view) override {}
  void on_lost(Loss, std::string_view) override {}

 private:
  std::string text_;
};

Conversation::Instant at(int ms) {
  return Conversation::Instant(std::chrono::milliseconds(ms));
}

Conversation conversation(std::size_t max_reply_bytes = 1024) {
  return {std::make_unique<LineFraming>(),
          {.max_in_flight = 4, .max_reply_bytes = max_reply_bytes}};
}

void receive(Conversation& talk, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = talk.room();
    const std::size_t n = std::min(room.size(), bytes.size());
    bytes.copy(room.data(), n);
    talk.received(n);
    bytes.remove_prefix(n);
  }
}

void send_all(Conversation& talk) {
  talk.sent(talk.unsent().size());
}

TEST(ConversationTest, GivesEachReplyToTheOldestQuestion) {
  Conversation talk = conversation();
  Words first("first\n");
  Words second("second\n");
  EXPECT_TRUE(talk.is_idle());
  talk.ask(first, at(1));
  talk.ask(second, at(2));
  EXPECT_EQ(talk.unsent(), "first\nsecond\n");
  EXPECT_EQ(talk.waiting_since(), at(1));
  talk.sent(5);
  EXPECT_EQ(talk.unsent(), "\nsecond\n");
  send_all(talk);
  receive(talk, "1\n2");
  EXPECT_EQ(talk.next_reply(), "1\n");
  EXPECT_EQ(talk.answered(), &first);
  talk.drop_reply();
  EXPECT_EQ(talk.next_reply(), std::nullopt);
  EXPECT_EQ(talk.waiting_since(), at(2));
  receive(talk, "\n");
  EXPECT_EQ(talk.next_reply(), "2\n");
  EXPECT_EQ(talk.answered(), &second);
  talk.drop_reply();
  EXPECT_TRUE(talk.is_idle());
  EXPECT_EQ(talk.fault(), "");
}

TEST(ConversationTest, TellsWhatWasSentFromWhatWasNot) {
  Conversation talk = conversation();
  Words first("first\n");
  Words second("second\n");
  Words third("third\n");
  talk.say("hello\n");
  send_all(talk);
  talk.ask(first, at(1));
  talk.ask(second, at(1));
  talk.ask(third, at(1));
  const auto losses = [&] {
    std::vector<Loss> all;
    for (const Conversation::Unanswered& one : talk.end()) all.push_back(one.loss);
    return all;
  };
  EXPECT_THAT(losses(), ElementsAre(Loss::kUnsent, Loss::kUnsent, Loss::kUnsent));
  talk.sent(6);
  EXPECT_THAT(losses(), ElementsAre(Loss::kUnknown, Loss::kUnsent, Loss::kUnsent));
  talk.sent(1);
  EXPECT_THAT(losses(), ElementsAre(Loss::kUnknown, Loss::kUnknown, Loss::kUnsent));
  EXPECT_EQ(talk.end()[2].exchange, &third);
}

TEST(ConversationTest, AQuestionThatCannotBeWrittenIsInFlight) {
  Conversation talk = conversation();
  Words question("no memory\n");
  EXPECT_THROW(talk.ask(question, at(1)), std::bad_alloc);
  ASSERT_EQ(talk.in_flight(), 1U);
  EXPECT_EQ(talk.end()[0].loss, Loss::kUnsent);
}

TEST(ConversationTest, AReplyThatNobodyAskedForIsAFault) {
  Conversation talk = conversation();
  receive(talk, "1\n");
  EXPECT_FALSE(talk.is_idle());
  EXPECT_EQ(talk.next_reply(), "1\n");
  EXPECT_EQ(talk.answered(), nullptr);
  EXPECT_EQ(talk.fault(), "sent a reply that nobody asked for");
  EXPECT_EQ(talk.next_reply(), std::nullopt);
}

TEST(ConversationTest, AReplyToHalfAQuestionIsAFault) {
  Conversation talk = conversation();
  Words question("question\n");
  talk.ask(question, at(1));
  talk.sent(8);
  receive(talk, "1\n");
  EXPECT_EQ(talk.next_reply(), "1\n");
  EXPECT_EQ(talk.answered(), nullptr);
  EXPECT_EQ(talk.fault(), "sent a reply that nobody asked for");
  EXPECT_EQ(talk.end()[0].loss, Loss::kUnknown);
}

TEST(ConversationTest, WhatIsNoReplyIsAFault) {
  Conversation talk = conversation();
  receive(talk, "!\n1\n");
  EXPECT_EQ(talk.next_reply(), std::nullopt);
  EXPECT_EQ(talk.fault(), "sent what is no reply");
}

TEST(ConversationTest, ALongReplyIsAFaultWhetherItEndsOrNot) {
  const std::string fault = "sent a reply longer than 10 bytes";
  Conversation fits = conversation(10);
  receive(fits, "123456789\n");
  EXPECT_EQ(fits.next_reply(), "123456789\n");
  Conversation ends = conversation(10);
  receive(ends, "1234567890\n");
  EXPECT_EQ(ends.next_reply(), std::nullopt);
  EXPECT_EQ(ends.fault(), fault);
  Conversation goes_on = conversation(10);
  receive(goes_on, "123456789");
  EXPECT_EQ(goes_on.next_reply(), std::nullopt);
  EXPECT_EQ(goes_on.fault(), "");
  receive(goes_on, "0");
  EXPECT_EQ(goes_on.next_reply(), std::nullopt);
  EXPECT_EQ(goes_on.fault(), fault);
}

TEST(ConversationTest, KeepsNoLargeBuffer) {
  constexpr std::size_t kLarge = 3'000'000;
  Conversation talk = conversation(kLarge);
  Words question(std::string(kLarge, 'q') + "\n");
  talk.ask(question, at(1));
  send_all(talk);
  receive(talk, std::string(kLarge - 1, 'x') + "\n");
  ASSERT_EQ(talk.next_reply().value_or("").size(), kLarge);
  ASSERT_EQ(talk.answered(), &question);
  talk.drop_reply();
  EXPECT_LE(talk.room().size(), 128U * 1024);
}

TEST(ConversationTest, NeverHoldsMoreThanAReplyAndARead) {
  constexpr std::size_t kMax = 1'000'000;
  Conversation talk = conversation(kMax);
  std::size_t held = 0;
  while (talk.fault().empty()) {
    const std::span<char> room = talk.room();
    ASSERT_GE(room.size(), 16U * 1024);
    std::fill(room.begin(), room.end(), 'x');
    talk.received(room.size());
    held += room.size();
    EXPECT_EQ(talk.next_reply(), std::nullopt);
  }
  EXPECT_LE(held, kMax + std::size_t{128} * 1024);
}

RC_GTEST_PROP(ConversationTest, FindsTheSameRepliesHoweverTheyAreCut,
              (const std::vector<std::uint16_t>& lengths, const std::vector<std::uint16_t>& cuts)) {
  std::string input;
  for (const std::uint16_t length : lengths) input.append(length % 40'000, 'x').append("\n");
  Conversation talk = conversation(100'000);
  Words question("question\n");
  std::string replies;
  std::size_t cut = 0;
  for (std::size_t at_byte = 0; at_byte < input.size();) {
    const std::size_t n = cuts.empty() ? 7'000 : 1 + cuts[cut++ % cuts.size()] % 50'000;
    const std::size_t piece_bytes = std::min(n, input.size() - at_byte);
    const std::string_view piece(input.data() + at_byte, piece_bytes);
    // As a socket would: no more than there is room for.
    const std::span<char> room = talk.room();
    const std::size_t got = piece.copy(room.data(), room.size());
    talk.received(got);
    at_byte += got;
    while (const std::optional<std::string_view> reply = talk.next_reply()) {
      talk.ask(question, at(1));
      send_all(talk);
      RC_ASSERT(talk.answered() == &question);
      RC_ASSERT(reply->find('\n') == reply->size() - 1);
      replies += *reply;
      talk.drop_reply();
    }
    RC_ASSERT(talk.fault().empty());
  }
  RC_ASSERT(replies == input);
}

}  // namespace
}  // namespace sluice

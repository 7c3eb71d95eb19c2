#include "net/command_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <vector>

#include "testing/request_pipeline_fixture.h"

namespace sluice {
namespace {

using testing::ElementsAre;

class Words final : public Command {
 public:
  explicit Words(std::string text) : text_(std::move(text)) {}
  void write(std::string& output) override { output += text_; }
  void on_reply(std::string_view) override {}
  void on_lost(Loss, std::string_view) override {}

 private:
  std::string text_;
};

std::unique_ptr<Command> words(std::string text) {
  return std::make_unique<Words>(std::move(text));
}

CommandQueue::TimePoint at(int ms) {
  return CommandQueue::TimePoint(std::chrono::milliseconds(ms));
}

CommandQueue make_queue(std::size_t max_reply_bytes = 1024) {
  return {std::make_unique<LineFraming>(), max_reply_bytes};
}

void receive(CommandQueue& queue, std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = queue.room();
    const std::size_t n = std::min(room.size(), bytes.size());
    bytes.copy(room.data(), n);
    queue.received(n);
    bytes.remove_prefix(n);
  }
}

void send_all(CommandQueue& queue) {
  queue.begin_sending(at(2));
  queue.sent(queue.unsent().size());
}

TEST(CommandQueueTest, TellsWhatWasSentFromWhatWasNot) {
  const auto losses = [](std::size_t bytes_sent, bool all_sent) {
    CommandQueue queue = make_queue();
    queue.add_handshake("hello\n");
    send_all(queue);
    std::vector<const Command*> added;
    for (const char* text : {"first\n", "second\n", "third\n"}) {
      auto command = words(text);
      added.push_back(command.get());
      queue.add(std::move(command), at(1));
    }
    queue.sent(bytes_sent);
    std::vector<Loss> all;
    for (const Command* command : added) {
      const auto [lost, loss] = queue.lose(all_sent);
      EXPECT_EQ(lost.get(), command);
      all.push_back(loss);
    }
    EXPECT_EQ(queue.in_flight(), 0U);
    return all;
  };
  EXPECT_THAT(losses(0, false), ElementsAre(Loss::kUnsent, Loss::kUnsent, Loss::kUnsent));
  EXPECT_THAT(losses(6, false), ElementsAre(Loss::kMayBeExecuted, Loss::kUnsent, Loss::kUnsent));
  EXPECT_THAT(losses(7, false),
              ElementsAre(Loss::kMayBeExecuted, Loss::kMayBeExecuted, Loss::kUnsent));
  EXPECT_THAT(losses(7, true),
              ElementsAre(Loss::kMayBeExecuted, Loss::kMayBeExecuted, Loss::kMayBeExecuted));
}

// This process may be stopped before it sends a command: for that time the server is not silent.
TEST(CommandQueueTest, ACommandWaitsForItsReplySinceItWasHandedOver) {
  CommandQueue queue = make_queue();
  EXPECT_EQ(queue.waiting_since(), std::nullopt);
  queue.add(words("first\n"), at(1));
  EXPECT_EQ(queue.waiting_since(), at(1)) << "a socket that takes no bytes is silence, too";
  queue.begin_sending(at(300));
  EXPECT_EQ(queue.waiting_since(), at(300));
  queue.sent(3);
  queue.add(words("second\n"), at(301));
  queue.begin_sending(at(600));
  EXPECT_EQ(queue.waiting_since(), at(300)) << "it was handed over already";
  receive(queue, "1\n");
  EXPECT_EQ(queue.next_reply(), "1\n");
  EXPECT_NE(queue.answered(), nullptr);
  EXPECT_EQ(queue.waiting_since(), at(600));
}

TEST(CommandQueueTest, AReplyToACommandThatIsNotHandedOverIsAnError) {
  for (const bool handed_over : {true, false}) {
    CommandQueue queue = make_queue();
    queue.add(words("command\n"), at(1));
    if (handed_over) queue.begin_sending(at(2));
    receive(queue, "1\n");
    EXPECT_EQ(queue.next_reply(), "1\n");
    EXPECT_EQ(queue.answered() != nullptr, handed_over);
    EXPECT_EQ(queue.error(), handed_over ? "" : "sent a reply to no command");
  }
}

TEST(CommandQueueTest, ALongReplyIsAnErrorWhetherItEndsOrNot) {
  const std::string error = "sent a reply longer than 10 bytes";
  CommandQueue fits = make_queue(10);
  receive(fits, "123456789\n");
  EXPECT_EQ(fits.next_reply(), "123456789\n");
  CommandQueue ends = make_queue(10);
  receive(ends, "1234567890\n");
  EXPECT_EQ(ends.next_reply(), std::nullopt);
  EXPECT_EQ(ends.error(), error);
  CommandQueue goes_on = make_queue(10);
  receive(goes_on, "123456789");
  EXPECT_EQ(goes_on.next_reply(), std::nullopt);
  EXPECT_EQ(goes_on.error(), "");
  receive(goes_on, "0");
  EXPECT_EQ(goes_on.next_reply(), std::nullopt);
  EXPECT_EQ(goes_on.error(), error);
}

TEST(CommandQueueTest, KeepsNoLargeBuffer) {
  constexpr std::size_t kLarge = 3'000'000;
  CommandQueue queue = make_queue(kLarge);
  queue.add(words(std::string(kLarge, 'q') + "\n"), at(1));
  send_all(queue);
  receive(queue, std::string(kLarge - 1, 'x') + "\n");
  ASSERT_EQ(queue.next_reply().value_or("").size(), kLarge);
  ASSERT_NE(queue.answered(), nullptr);
  EXPECT_EQ(queue.next_reply(), std::nullopt);
  EXPECT_LE(queue.room().size(), 128U * 1024);
}

TEST(CommandQueueTest, NeverHoldsMoreThanAReplyAndARead) {
  constexpr std::size_t kMax = 1'000'000;
  CommandQueue queue = make_queue(kMax);
  std::size_t held = 0;
  while (queue.error().empty()) {
    const std::span<char> room = queue.room();
    ASSERT_GE(room.size(), 16U * 1024);
    std::fill(room.begin(), room.end(), 'x');
    queue.received(room.size());
    held += room.size();
    EXPECT_EQ(queue.next_reply(), std::nullopt);
  }
  EXPECT_LE(held, kMax + std::size_t{128} * 1024);
}

RC_GTEST_PROP(CommandQueueTest, FindsTheSameRepliesHoweverTheyAreCut,
              (const std::vector<std::uint16_t>& lengths, const std::vector<std::uint16_t>& cuts)) {
  std::string input;
  for (const std::uint16_t length : lengths) input.append(length % 40'000, 'x').append("\n");
  CommandQueue queue = make_queue(100'000);
  std::string replies;
  std::size_t cut = 0;
  for (std::size_t at_byte = 0; at_byte < input.size();) {
    const std::size_t n = cuts.empty() ? 7'000 : 1 + cuts[cut++ % cuts.size()] % 50'000;
    const std::size_t piece_bytes = std::min(n, input.size() - at_byte);
    const std::string_view piece(input.data() + at_byte, piece_bytes);
    // As a socket would: no more than there is room for.
    const std::span<char> room = queue.room();
    const std::size_t got = piece.copy(room.data(), room.size());
    queue.received(got);
    at_byte += got;
    while (const std::optional<std::string_view> reply = queue.next_reply()) {
      queue.add(words("command\n"), at(1));
      send_all(queue);
      RC_ASSERT(queue.answered() != nullptr);
      RC_ASSERT(reply->find('\n') == reply->size() - 1);
      replies += *reply;
    }
    RC_ASSERT(queue.error().empty());
  }
  RC_ASSERT(replies == input);
}

}  // namespace
}  // namespace sluice

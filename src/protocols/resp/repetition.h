#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "protocols/resp/number.h"

namespace sluice::resp {

/// Reads a command that differs from the one before it in nothing but its second argument, as most
/// of a client's do: their key. What is the same is compared and not read.
class Repetition {
 public:
  /// The command that was read last stood at the start of `input`, with these arguments in it.
  void remember(std::string_view input, std::span<const std::string_view> arguments) {
    head_bytes_ = 0;
    if (arguments.size() < 2 || arguments.size() > kMostArguments) return;
    const auto offset = [&](const char* at) { return static_cast<std::size_t>(at - input.data()); };
    // Up to the marker of the second argument, and what stands behind its last byte.
    const std::size_t head = offset(arguments[0].data()) + arguments[0].size() + 3;
    const std::size_t tail = offset(arguments[1].data()) + arguments[1].size();
    const std::size_t end = offset(arguments.back().data()) + arguments.back().size() + 2;
    if (head < kWord || head > kMostHead || end - tail < kWord || end - tail > kMostTail) return;
    std::memcpy(head_.data(), input.data(), head);
    std::memcpy(tail_.data(), input.data() + tail, end - tail);
    for (std::size_t i = 2; i < arguments.size(); ++i) {
      pieces_[i] = {static_cast<std::uint8_t>(offset(arguments[i].data()) - tail),
                    static_cast<std::uint8_t>(arguments[i].size())};
    }
    pieces_[0].bytes = static_cast<std::uint8_t>(arguments[0].size());
    count_ = static_cast<std::uint8_t>(arguments.size());
    head_bytes_ = static_cast<std::uint8_t>(head);
    tail_bytes_ = static_cast<std::uint8_t>(end - tail);
  }

  /// The last command cannot be repeated.
  void forget() { head_bytes_ = 0; }

  static constexpr std::size_t kMostArguments = 8;

  /// How many arguments the command has that read() finds.
  std::uint32_t count() const { return count_; }

  /// Reads the command at the start of `input`, into as many arguments. Returns its length; 0, with
  /// nothing done, where it is another one, or not all there. REQUIRES: room for kMostArguments.
  std::size_t read(std::string_view input, std::span<std::string_view> arguments) const {
    constexpr std::size_t kFewDigits = 4;
    if (head_bytes_ == 0 || input.size() < head_bytes_ + kFewDigits ||
        !equal(input.data(), head_.data(), head_bytes_)) {
      return 0;
    }
    std::size_t at = head_bytes_;
    std::size_t length = 0;
    for (std::size_t i = 0; i < kFewDigits && is_digit(input[at]); ++i) {
      length = length * 10 + static_cast<std::size_t>(input[at++] - '0');
    }
    const bool canonical =
        at == head_bytes_ + 1U || (at > head_bytes_ && input[head_bytes_] != '0');
    const std::size_t key = at + 2;
    const std::size_t consumed = key + length + tail_bytes_;
    if (!canonical || consumed > input.size() || input[at] != '\r' ||
        !equal(input.data() + key + length, tail_.data(), tail_bytes_)) {
      return 0;
    }
    // Not by substr(), which would look at the bounds of each again.
    const char* const begin = input.data();
    arguments[0] = {begin + head_bytes_ - pieces_[0].bytes - 3, pieces_[0].bytes};
    arguments[1] = {begin + key, length};
    for (std::size_t i = 2; i < count_; ++i) {
      arguments[i] = {begin + key + length + pieces_[i].at, pieces_[i].bytes};
    }
    return consumed;
  }

 private:
  static constexpr std::size_t kMostHead = 64;
  static constexpr std::size_t kMostTail = 64;
  static constexpr std::size_t kWord = 8;

  /// An argument: where it stands behind the second one, and how long it is.
  struct Piece {
    std::uint8_t at = 0;
    std::uint8_t bytes = 0;
  };

  // Word by word, the last of which may overlap the one before. REQUIRES: bytes >= kWord.
  static bool equal(const char* a, const char* b, std::size_t bytes) {
    std::uint64_t differs = 0;
    const auto compare = [&](std::size_t at) {
      std::uint64_t x = 0;
      std::uint64_t y = 0;
      std::memcpy(&x, a + at, kWord);
      std::memcpy(&y, b + at, kWord);
      differs |= x ^ y;
    };
    for (std::size_t at = 0; at + kWord < bytes; at += kWord) compare(at);
    compare(bytes - kWord);
    return differs == 0;
  }

  std::array<char, kMostHead> head_;
  std::array<char, kMostTail> tail_;
  std::array<Piece, kMostArguments> pieces_;
  std::uint8_t count_ = 0;
  std::uint8_t head_bytes_ = 0;  // 0: nothing is remembered.
  std::uint8_t tail_bytes_ = 0;
};

}  // namespace sluice::resp

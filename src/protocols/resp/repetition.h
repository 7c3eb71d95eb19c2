#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "core/ascii.h"

namespace sluice::resp {

/// A shortcut for a command that differs from the one before it only in its second argument, the
/// key, as most commands of a pipeline do: the equal bytes are compared and not parsed. Without
/// this shortcut a CL.THROTTLE cost the server two fifths more at pipeline 64, and a fifth more at
/// pipeline 16.
class Repetition {
 public:
  /// A command that was found, as bytes of the input; none if `consumed` is 0.
  struct Found {
    std::string_view second_argument;
    std::size_t consumed = 0;
  };

  /// Remembers the command that was just read: it stands at the start of `input`, and its arguments
  /// are views of it.
  void remember(std::string_view input, std::span<const std::string_view> arguments) {
    head_bytes_ = 0;
    if (arguments.size() < 2) return;
    const auto offset = [&](const char* at) { return static_cast<std::size_t>(at - input.data()); };
    // Up to the marker of the second argument, and what stands behind its last byte.
    const std::size_t head = offset(arguments[0].data()) + arguments[0].size() + 3;
    const std::size_t tail = offset(arguments[1].data()) + arguments[1].size();
    const std::size_t end = offset(arguments.back().data()) + arguments.back().size() + 2;
    if (head < kWord || head > kMost || end - tail < kWord || end - tail > kMost) return;
    std::memcpy(head_.data(), input.data(), head);
    std::memcpy(tail_.data(), input.data() + tail, end - tail);
    head_bytes_ = static_cast<std::uint8_t>(head);
    tail_bytes_ = static_cast<std::uint8_t>(end - tail);
  }

  /// Forgets the remembered command, as the last one cannot be repeated.
  void forget() { head_bytes_ = 0; }

  /// Looks for the remembered command, with any second argument, at the start of `input`. Finds it
  /// only if all of it has arrived.
  Found find(std::string_view input) const {
    constexpr std::size_t kFewDigits = 4;
    if (head_bytes_ == 0 || input.size() < head_bytes_ + kFewDigits ||
        !equal(input.data(), head_.data(), head_bytes_)) {
      return {};
    }
    std::size_t at = head_bytes_;
    std::size_t length = 0;
    for (std::size_t i = 0; i < kFewDigits && is_digit(input[at]); ++i) {
      length = length * 10 + static_cast<std::size_t>(input[at++] - '0');
    }
    const bool canonical =
        at == head_bytes_ + 1U || (at > head_bytes_ && input[head_bytes_] != '0');
    const std::size_t begin = at + 2;
    const std::size_t consumed = begin + length + tail_bytes_;
    if (!canonical || consumed > input.size() || input[at] != '\r' ||
        !equal(input.data() + begin + length, tail_.data(), tail_bytes_)) {
      return {};
    }
    return {{input.data() + begin, length}, consumed};
  }

 private:
  static constexpr std::size_t kMost = 64;
  static constexpr std::size_t kWord = 8;

  // Word by word, the last of which may overlap the one before. REQUIRES: bytes >= kWord.
  static bool equal(const char* a, const char* b, std::size_t bytes) {
    assert(bytes >= kWord);
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

  std::array<char, kMost> head_;
  std::array<char, kMost> tail_;
  std::uint8_t head_bytes_ = 0;  // 0: nothing is remembered.
  std::uint8_t tail_bytes_ = 0;
};

}  // namespace sluice::resp

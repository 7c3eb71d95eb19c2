#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/options.h"

namespace sluice::bench {

/// Parses replies and checks each one: its form, and whether its numbers are possible for a request
/// of one unit under the limit. Not thread-safe.
class ReplyChecker {
 public:
  struct Progress {
    std::size_t replies = 0;
    std::size_t bytes = 0;
    /// One sentence that says what is wrong with the reply at `bytes`; null if all are right.
    const char* error = nullptr;
  };

  ReplyChecker(Reply reply, const LimitNumbers& limit);

  /// Checks the complete replies at the front, up to the first wrong one. An incomplete reply at
  /// the end is left for the next call, which gets it together with the bytes after it.
  Progress check(std::string_view bytes);

 private:
  enum class Verdict : std::uint8_t { kRight, kCutOff, kWrong };

  struct Five {
    std::array<std::int64_t, 5> numbers{};
    std::size_t bytes = 0;
    const char* error = nullptr;
  };

  Verdict read_pong(std::string_view bytes, Five* five) const;
  Verdict read_five(std::string_view bytes, Five* five) const;
  const char* judge(const std::array<std::int64_t, 5>& numbers) const;
  void remember(std::string_view reply);

  Reply reply_;
  std::int64_t capacity_;
  std::int64_t longest_reset_s_;
  /// The last reply that was right. Replies repeat, and one with the same bytes is right as well,
  /// since no reply is a prefix of another.
  std::array<char, 64> known_{};
  std::size_t known_bytes_ = 0;
};

}  // namespace sluice::bench

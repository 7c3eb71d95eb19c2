#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "load/options.h"

namespace sluice::bench {

/// Reads replies and checks each whole: its shape, and that its numbers can be the answer to a
/// request of one unit under the limit asked for. Not thread-safe.
class ReplyChecker {
 public:
  struct Progress {
    std::size_t replies = 0;
    std::size_t bytes = 0;
    /// What is wrong with the reply at `bytes`, one sentence; null where all read so far is right.
    const char* fault = nullptr;
  };

  ReplyChecker(Reply reply, const LimitNumbers& limit);

  /// Reads whole replies from the front, until the bytes end (a reply that is cut off there is left
  /// for the next call, together with what follows it) or a reply is wrong.
  Progress check(std::string_view bytes);

 private:
  enum class Verdict : std::uint8_t { kRight, kCutOff, kWrong };

  struct Five {
    std::array<std::int64_t, 5> numbers{};
    std::size_t bytes = 0;
    const char* fault = nullptr;
  };

  Verdict read_pong(std::string_view bytes, Five* five) const;
  Verdict read_five(std::string_view bytes, Five* five) const;
  const char* judge(const std::array<std::int64_t, 5>& numbers) const;
  void remember(std::string_view reply);

  Reply reply_;
  std::int64_t capacity_;
  std::int64_t longest_reset_s_;
  /// The reply that was last found right. Replies repeat, and one of the same bytes is right too:
  /// no reply is the beginning of another.
  std::array<char, 64> known_{};
  std::size_t known_bytes_ = 0;
};

}  // namespace sluice::bench

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

  explicit ReplyChecker(const LoadOptions& options);

  /// Checks the complete replies at the front, up to the first wrong one. An incomplete reply at
  /// the end is left for the next call, which gets it together with the bytes after it.
  Progress check(std::string_view bytes);

 private:
  /// What both kinds of numbers say.
  struct Answer {
    std::int64_t allowed = 0;  ///< Neither 0 nor 1 if it was neither.
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    std::int64_t retry_after = 0;
    std::int64_t reset_after = 0;
    /// What retry_after is if the request is allowed.
    std::int64_t no_retry = 0;
    std::int64_t units_a_second = 1;
  };

  enum class Verdict : std::uint8_t { kRight, kCutOff, kWrong };

  struct Read {
    std::array<std::int64_t, 6> numbers{};
    std::size_t bytes = 0;
    const char* error = nullptr;
  };

  Verdict read_pong(std::string_view bytes, Read* read) const;
  Verdict read_numbers(std::string_view bytes, Read* read) const;
  const char* judge(const Answer& answer) const;
  void remember(std::string_view reply);

  const Reply reply_;
  // Of the limits that the requests have.
  std::int64_t least_capacity_;
  std::int64_t most_capacity_;
  double longest_reset_s_;
  /// The last reply that was right. Replies repeat, and one with the same bytes is right as well,
  /// since no reply is a prefix of another.
  std::array<char, 64> known_{};
  std::size_t known_bytes_ = 0;
};

}  // namespace sluice::bench

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <forward_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "protocols/resp/repetition.h"

namespace sluice::resp {

/// The bounds of one command on the wire, all its framing included.
inline constexpr std::size_t kMaxCommandBytes = 65'536;
inline constexpr std::size_t kMaxArguments = 64;

/// Reads commands as a Redis client sends them: arrays of bulk strings, or inline commands with
/// Redis's quoting. It does no I/O and keeps no input; it remembers how far it has come, so that a
/// command that arrives byte by byte is still read only once.
class Parser {
 public:
  enum class Result : std::uint8_t { kCommand, kNeedMore, kError };

  /// Reads the command at the start of `input`.
  /// - kCommand: arguments() and consumed() describe it. No arguments (an empty line, `*0`) means
  ///   that there is nothing to do. The next call's input begins after the consumed bytes.
  /// - kNeedMore: the next call's input begins with the same bytes and has more. Fewer than
  ///   kMaxCommandBytes bytes ever need to be kept for this.
  /// - kError: error() says why. The following bytes of this connection cannot be parsed, so there
  ///   must be no next call.
  Result next(std::string_view input);

  /// Views of `input`, or, of an inline command, of memory that release() frees.
  std::span<const std::string_view> arguments() const { return {arguments_.data(), count_}; }

  /// Frees the memory of the commands read since the last release(), so that an idle connection
  /// holds little. REQUIRES: their arguments are not used any more.
  void release();

  /// A shortcut (see Repetition). If `input` begins with a command that equals the command before
  /// it but for the second argument (the key), returns that argument; consumed() then describes the
  /// command, arguments() does not. Otherwise returns nothing, and next() has to read the command.
  std::optional<std::string_view> next_repeated(std::string_view input);

  /// The length of the command, in bytes of the input.
  std::size_t consumed() const { return consumed_; }

  /// The error as it is sent, without the leading '-' and the line end.
  const std::string& error() const { return error_; }

 private:
  enum class Stage : std::uint8_t { kStart, kInline, kCount, kHeader, kBulk };
  enum class Split : std::uint8_t { kDone, kUnbalanced, kTooMany };
  struct Header {
    char marker;
    const char* too_long;
    const char* invalid;
  };

  Result next_inline(std::string_view input);
  Result next_array(std::string_view input);
  Result read_count(std::string_view input);
  Result read_bulks(std::string_view input);
  Result read_header(std::string_view input, const Header& header);
  Result read_header_slowly(std::string_view input, const Header& header);
  Split split(std::string_view line);
  void rebase(std::string_view input);
  Result command(std::size_t consumed);
  Result need_more(std::string_view input);
  Result fail(std::string_view error);

  Stage stage_ = Stage::kStart;
  std::uint32_t count_ = 0;
  std::uint32_t expected_ = 0;
  /// How far the current command is read, and how far its unfinished line has been searched.
  std::size_t at_ = 0;
  std::size_t searched_ = 0;
  std::int64_t number_ = 0;
  std::size_t consumed_ = 0;
  /// The address of the input at the last kNeedMore: arguments refer to it, and it may move.
  std::uintptr_t base_ = 0;
  std::array<std::string_view, kMaxArguments> arguments_;
  Repetition repetition_;                        // Of the last command, if it can be repeated.
  std::forward_list<std::string> inline_texts_;  // A text for each inline command.
  std::string error_;
};

}  // namespace sluice::resp

#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::redis {

/// A RESP2 reply to a command that is asked rarely (CLUSTER SLOTS, SENTINEL, ROLE), as a tree. The
/// script's replies, which come for every decision, are read without one.
struct Reply {
  enum class Kind : std::uint8_t { kText, kError, kInteger, kNil, kArray };

  Kind kind = Kind::kNil;
  /// Of a text or an error, without its type; refers to the bytes that were read.
  std::string_view text = {};
  std::int64_t integer = 0;
  std::vector<Reply> elements = {};

  bool is_text() const { return kind == Kind::kText; }
  bool is_error() const { return kind == Kind::kError; }
};

/// Reads one whole reply; nothing where the bytes are none, or are nested more than eight deep.
std::optional<Reply> read_reply(std::string_view bytes);

/// Appends a command as RESP: an array of bulk strings.
void append_command(std::string& output, std::span<const std::string_view> arguments);
void append_command(std::string& output, std::initializer_list<std::string_view> arguments);

}  // namespace sluice::redis

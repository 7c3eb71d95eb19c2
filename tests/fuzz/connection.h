#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "check.h"
#include "net/stream_handler.h"
#include "testing/handler_connection.h"

namespace sluice {

/// What a client at the address `peer` receives for these bytes from a new handler, which gets them
/// in pieces of this size. Checks that the handler consumes no more than it was given, and leaves
/// less than `max_input_bytes`, wherever the input is cut.
inline std::string replies_to(std::string_view bytes, std::size_t piece_bytes,
                              const MakeHandler& make, std::string peer = "127.0.0.1",
                              std::size_t max_input_bytes = kMaxInputBytes) {
  HandlerConnection connection(make({.wake = [] {}, .peer = std::move(peer)}));
  std::string output;
  for (std::size_t at = 0;
       at < bytes.size() && connection.progress.next != StreamHandler::Next::kClose;
       at += piece_bytes) {
    output += connection.send(bytes.substr(at, piece_bytes));
    check(connection.unread_bytes() < max_input_bytes);
  }
  return output;
}

/// The first byte of `data` says how large the pieces are; the rest is what a client sends. Checks
/// that `replies_of(bytes, piece_bytes)` is the same whole as in pieces of that size, unless it has
/// one of the words `varying`, whose values differ from call to call.
template <class RepliesOf>
void check_pieces(const std::uint8_t* data, std::size_t size, RepliesOf replies_of,
                  std::initializer_list<std::string_view> varying) {
  if (size < 1) return;
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = replies_of(bytes, bytes.size() + 1);
  const std::string in_pieces = replies_of(bytes, piece_bytes);
  for (const std::string_view word : varying) {
    if (whole.find(word) != std::string::npos) return;
  }
  check(whole == in_pieces);
}

}  // namespace sluice

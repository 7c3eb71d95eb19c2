#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "check.h"
#include "net/command.h"

namespace sluice {

/// Where the replies of a server end, as such a framing finds them, up to a malformed one, whose
/// end is Framing::kMalformed. The bytes arrive in pieces of this size, each in memory of exactly
/// its size, so that the address sanitizer reports a read beyond it.
template <class F>
std::vector<std::size_t> ends_of_replies(std::string_view bytes, std::size_t piece_bytes) {
  F framing;
  std::vector<std::size_t> ends;
  for (std::size_t begin = 0, at = 0; at < bytes.size();) {
    at += std::min(piece_bytes, bytes.size() - at);
    for (std::size_t found = 1; found != 0 && begin < at;) {
      const auto input = std::make_unique<char[]>(at - begin);
      bytes.copy(input.get(), at - begin, begin);
      found = framing.reply_bytes({input.get(), at - begin});
      if (found == Framing::kMalformed) {
        ends.push_back(found);
        return ends;
      }
      check(found <= at - begin);
      begin += found;
      if (found != 0) ends.push_back(begin);
    }
  }
  return ends;
}

/// The first byte of `data` says how large the pieces are; the rest is what the server sends.
/// Checks that they do not change the ends of the replies, and calls `read` with each reply, and
/// whether it is whole: the last may not be.
template <class F, class Read>
void check_replies(const std::uint8_t* data, std::size_t size, Read read) {
  if (size < 1) return;
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto ends = ends_of_replies<F>(bytes, bytes.size());
  check(ends == ends_of_replies<F>(bytes, piece_bytes));
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (end == Framing::kMalformed) break;
    read(bytes.substr(begin, end - begin), true);
    begin = end;
  }
  read(bytes.substr(begin), false);
}

}  // namespace sluice

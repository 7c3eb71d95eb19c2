// For any bytes of a memcached, the ends of its replies do not depend on how the bytes are cut into
// pieces, and the parser reads no byte beyond them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "check.h"
#include "stores/memcached/meta_protocol.h"

namespace {

using sluice::check;
using sluice::Framing;

// Where the reply to the handshake and those to the commands after it end. The bytes arrive in
// pieces, each in memory of exactly its size, so that the address sanitizer reports a read beyond
// it.
std::vector<std::size_t> ends_of_replies(std::string_view bytes, std::size_t piece_bytes) {
  sluice::memcached::MetaFraming framing;
  std::vector<std::size_t> ends;
  for (std::size_t begin = 0, at = 0; at < bytes.size();) {
    at = bytes.size() - at < piece_bytes ? bytes.size() : at + piece_bytes;
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

void take_apart(std::string_view bytes) {
  const auto reply = std::make_unique<char[]>(bytes.size());
  bytes.copy(reply.get(), bytes.size());
  std::string_view unread(reply.get(), bytes.size());
  while (const auto one = sluice::memcached::take_reply(unread)) {
    check(one->text.size() <= bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says how large the pieces are; the rest is what the server sends.
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto ends = ends_of_replies(bytes, bytes.size());
  check(ends == ends_of_replies(bytes, piece_bytes));
  std::size_t begin = 0;
  for (const std::size_t end : ends) {
    if (end == Framing::kMalformed) break;
    take_apart(bytes.substr(begin, end - begin));
    begin = end;
  }
  take_apart(bytes.substr(begin));
  return 0;
}

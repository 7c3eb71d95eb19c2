// For any bytes of a Redis server, the ends of its replies do not depend on how the bytes are cut
// into pieces, a valid reply is as long as its framing says, and every error is classified.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "check.h"
#include "stores/redis/resp.h"

namespace {

using sluice::check;
using sluice::Framing;
using sluice::redis::Reply;
using sluice::redis::ServerError;

constexpr std::size_t kSlots = 16'384;

// Where the first reply ends, if the bytes arrive in pieces of this size, each in memory of exactly
// its size, so that the address sanitizer reports a read beyond it.
std::size_t end_of_reply(std::string_view bytes, std::size_t piece_bytes) {
  sluice::redis::RespFraming framing;
  for (std::size_t at = 0; at < bytes.size();) {
    at = bytes.size() - at < piece_bytes ? bytes.size() : at + piece_bytes;
    const auto input = std::make_unique<char[]>(at);
    bytes.copy(input.get(), at);
    const std::size_t found = framing.reply_bytes({input.get(), at});
    if (found != 0) return found;
  }
  return 0;
}

void check_reply(const Reply& reply) {
  if (reply.is_error()) {
    const ServerError error = sluice::redis::read_server_error(reply.text);
    const bool moves =
        error.kind == ServerError::Kind::kMoved || error.kind == ServerError::Kind::kAsk;
    check(error.slot < kSlots && moves == (error.port != 0));
  }
  for (const Reply& element : reply.elements) check_reply(element);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says how large the pieces are; the rest is what the server sends.
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::size_t end = end_of_reply(bytes, bytes.size());
  check(end == end_of_reply(bytes, piece_bytes));
  check(end <= bytes.size() || end == Framing::kMalformed);
  const bool is_whole = end != 0 && end != Framing::kMalformed;
  const auto reply = sluice::redis::read_reply(is_whole ? bytes.substr(0, end) : bytes);
  check(!reply || is_whole);
  if (reply) check_reply(*reply);
  return 0;
}

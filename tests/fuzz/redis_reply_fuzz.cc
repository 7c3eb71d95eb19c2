// For any bytes of a Redis server, the ends of its replies do not depend on how the bytes are cut
// into pieces, a valid reply is as long as its framing says, and every error is classified.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "check.h"
#include "framing.h"
#include "stores/redis/resp.h"

namespace {

using sluice::check;
using sluice::redis::Reply;
using sluice::redis::ServerError;

constexpr std::size_t kSlots = 16'384;

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
  sluice::check_replies<sluice::redis::RespFraming>(
      data, size, [](std::string_view bytes, bool is_whole) {
        const auto reply = sluice::redis::read_reply(bytes);
        check(!reply || is_whole);
        if (reply) check_reply(*reply);
      });
  return 0;
}

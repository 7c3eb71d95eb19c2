// For any bytes of a memcached, the ends of its replies do not depend on how the bytes are cut into
// pieces, and the parser reads no byte beyond them.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "check.h"
#include "framing.h"
#include "stores/memcached/meta_protocol.h"

namespace {

void take_apart(std::string_view bytes) {
  const auto reply = std::make_unique<char[]>(bytes.size());
  bytes.copy(reply.get(), bytes.size());
  std::string_view unread(reply.get(), bytes.size());
  while (const auto one = sluice::memcached::take_reply(unread)) {
    sluice::check(one->text.size() <= bytes.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  sluice::check_replies<sluice::memcached::MetaFraming>(
      data, size, [](std::string_view bytes, bool) { take_apart(bytes); });
  return 0;
}

// For any bytes of a client, the RESP handler does not crash, consumes no more than it was given,
// and gives the same answers however the bytes are cut into pieces.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "connection.h"
#include "protocols/resp/handler.h"
#include "testing/served_store.h"

namespace {

// What a client receives from a server whose store has no states yet.
std::string replies_to(std::string_view bytes, std::size_t piece_bytes) {
  const auto context = std::make_shared<sluice::ServerContext>(sluice::still_store(),
                                                               std::vector<sluice::Limit>{}, 1);
  return sluice::replies_to(bytes, piece_bytes, sluice::resp::handlers(context), "127.0.0.1",
                            sluice::resp::kMaxCommandBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says how large the pieces are; the rest is what the client sends.
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = replies_to(bytes, bytes.size() + 1);
  const std::string in_pieces = replies_to(bytes, piece_bytes);
  // INFO has the process's memory, which changes from call to call.
  if (whole.find("used_memory") != std::string::npos) return 0;
  sluice::check(whole == in_pieces);
  return 0;
}

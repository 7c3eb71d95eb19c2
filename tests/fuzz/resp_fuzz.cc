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
std::string replies_of(std::string_view bytes, std::size_t piece_bytes) {
  const auto context = std::make_shared<sluice::ServerContext>(sluice::still_store(),
                                                               std::vector<sluice::Limit>{}, 1);
  return sluice::replies_to(bytes, piece_bytes, sluice::resp::handlers(context), "127.0.0.1",
                            sluice::resp::kMaxCommandBytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // INFO has the process's memory, which changes from call to call.
  sluice::check_pieces(data, size, replies_of, {"used_memory"});
  return 0;
}

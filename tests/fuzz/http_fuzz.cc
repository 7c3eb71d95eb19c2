// For any bytes of a client, the HTTP handler does not crash, consumes no more than it was given,
// and gives the same answers however the bytes are cut into pieces.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http_connection.h"
#include "protocols/http/handler.h"
#include "testing/served_store.h"

namespace {

// Removes interim responses, which are sent only if the body does not arrive with the head.
std::string without_continue(std::string text) {
  constexpr std::string_view kInterim = "HTTP/1.1 100 Continue\r\n\r\n";
  for (std::size_t at = 0; (at = text.find(kInterim, at)) != std::string::npos;) {
    text.erase(at, kInterim.size());
  }
  return text;
}

std::string replies_of(std::string_view bytes, std::size_t piece_bytes) {
  const auto server = sluice::server_over(sluice::still_store());
  return without_continue(sluice::replies_to(bytes, piece_bytes, server));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Names of reservations and permits are random.
  sluice::check_pieces(data, size, replies_of, {"\"reservation\"", "\"permit\""});
  return 0;
}

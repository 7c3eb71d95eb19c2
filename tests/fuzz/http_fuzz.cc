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

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says how large the pieces are; the rest is what the client sends.
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto replies = [&](std::size_t size_of_piece) {
    const auto server = sluice::server_over(sluice::still_store());
    return without_continue(sluice::replies_to(bytes, size_of_piece, server));
  };
  const std::string whole = replies(bytes.size() + 1);
  const std::string in_pieces = replies(piece_bytes);
  // Names of reservations and permits are random.
  if (whole.find("\"reservation\"") != std::string::npos) return 0;
  if (whole.find("\"permit\"") != std::string::npos) return 0;
  sluice::check(whole == in_pieces);
  return 0;
}

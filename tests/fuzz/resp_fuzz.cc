// Whatever a client sends, and however it is cut into pieces, the RESP handler survives, consumes
// no more than it was given, and answers the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/resp/handler.h"
#include "testing/served_store.h"

namespace {

using sluice::StreamHandler;

void check(bool holds) {
  if (!holds) std::abort();
}

// One connection over a fresh store. Each piece is read from memory of exactly its size, so that a
// byte too far is seen.
std::string replies_to(std::string_view bytes, std::size_t piece_bytes) {
  const auto context = std::make_shared<sluice::ServerContext>(sluice::still_store(),
                                                               std::vector<sluice::Limit>{}, 1);
  const auto handler = sluice::resp::handlers(context)({.wake = [] {}});
  std::string output;
  std::string pending;
  StreamHandler::Progress progress;
  for (std::size_t at = 0; at < bytes.size() && progress.next != StreamHandler::Next::kClose;
       at += piece_bytes) {
    pending += bytes.substr(at, piece_bytes);
    do {
      const auto input = std::make_unique<char[]>(pending.size());
      pending.copy(input.get(), pending.size());
      progress = handler->on_data({input.get(), pending.size()}, output);
      check(progress.consumed <= pending.size());
      pending.erase(0, progress.consumed);
    } while (progress.next == StreamHandler::Next::kMore);
    check(pending.size() < sluice::resp::kMaxCommandBytes);
  }
  return output;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  // The first byte says how large the pieces are; the rest is what the client sends.
  const std::size_t piece_bytes = std::size_t{data[0]} + 1;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const std::string whole = replies_to(bytes, bytes.size() + 1);
  const std::string in_pieces = replies_to(bytes, piece_bytes);
  // INFO tells how much memory the process has, which changes from call to call.
  if (whole.find("used_memory") != std::string::npos) return 0;
  check(whole == in_pieces);
  return 0;
}

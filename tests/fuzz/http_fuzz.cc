// Whatever a client sends, and however it is cut into pieces, the HTTP handler survives, consumes
// no more than it was given, and answers the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocols/http/handler.h"
#include "testing/served_store.h"

namespace {

using sluice::StreamHandler;

void check(bool holds) {
  if (!holds) std::abort();
}

// One connection over a fresh store. Each piece is read from memory of exactly its size, so that a
// byte too far is seen.
std::string replies_to(std::string_view bytes, std::size_t piece_bytes) {
  const std::vector<sluice::Limit> named{sluice::Limit("token_bucket 5/1s", "login"),
                                         sluice::Limit("concurrency 1", "jobs")};
  const auto context = std::make_shared<sluice::ServerContext>(sluice::still_store(), named, 1);
  const auto handler = sluice::http::handlers(context)({.wake = [] {}, .peer = "127.0.0.1"});
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
    check(pending.size() < sluice::kMaxInputBytes);
  }
  return output;
}

// Without the interim responses, which are sent only where the body has not come with the head.
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
  const std::string whole = without_continue(replies_to(bytes, bytes.size() + 1));
  const std::string in_pieces = without_continue(replies_to(bytes, piece_bytes));
  // Names of reservations and permits are random.
  if (whole.find("\"reservation\"") != std::string::npos) return 0;
  if (whole.find("\"permit\"") != std::string::npos) return 0;
  check(whole == in_pieces);
  return 0;
}

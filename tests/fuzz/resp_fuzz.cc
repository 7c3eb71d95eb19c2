// Whatever a client sends, and however it is cut into pieces, the RESP session survives, consumes
// no more than it was given, and answers the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "protocols/resp/fake_store.h"
#include "protocols/resp/session.h"

namespace {

using sluice::resp::Progress;

constexpr sluice::Instant kNow = 1'700'000'000'000'000'000;

void check(bool holds) {
  if (!holds) std::abort();
}

// One connection over a fresh store. Each piece is read from memory of exactly its size, so that a
// byte too far is seen.
std::string converse(std::string_view bytes, std::size_t piece_bytes) {
  auto store = std::make_shared<sluice::FakeStore>();
  sluice::resp::Desk desk(store, sluice::LimitBook(store));
  sluice::resp::Session session(desk, 1);
  std::string output;
  std::string pending;
  Progress progress;
  for (std::size_t at = 0; at < bytes.size() && progress.next != Progress::Next::kClose;
       at += piece_bytes) {
    pending += bytes.substr(at, piece_bytes);
    do {
      const auto input = std::make_unique<char[]>(pending.size());
      pending.copy(input.get(), pending.size());
      progress = session.on_data({input.get(), pending.size()}, output, kNow);
      check(progress.consumed <= pending.size());
      check(progress.next != Progress::Next::kMore || progress.consumed > 0);
      pending.erase(0, progress.consumed);
    } while (progress.next == Progress::Next::kMore);
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
  check(converse(bytes, bytes.size() + 1) == converse(bytes, piece_bytes));
  return 0;
}

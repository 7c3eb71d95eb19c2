#pragma once

#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/http/handler.h"
#include "testing/served_store.h"

// A connection of HTTP, for the fuzz targets.

namespace sluice {

inline void check(bool holds) {
  if (!holds) std::abort();
}

/// The connections of a server over this store.
inline MakeHandler server_over(const std::shared_ptr<ScriptedStore>& store) {
  const std::vector<Limit> named{Limit("token_bucket 5/1s", "login"),
                                 Limit("concurrency 1", "jobs")};
  return http::handlers(std::make_shared<ServerContext>(store, named, 1));
}

/// What a client at this address, that sends these bytes in pieces of this size, receives. Each
/// piece is read from memory of exactly its size, so that a byte too far is seen.
inline std::string replies_to(std::string_view bytes, std::size_t piece_bytes,
                              const MakeHandler& make = server_over(still_store()),
                              std::string peer = "127.0.0.1") {
  const auto handler = make({.wake = [] {}, .peer = std::move(peer)});
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
    check(pending.size() < kMaxInputBytes);
  }
  return output;
}

}  // namespace sluice

#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "net/stream_handler.h"
#include "service/server_context.h"

namespace sluice {

/// A protocol that the server speaks.
struct ServedProtocol {
  /// Of its option and of its addresses in ServerOptions: "resp" for --resp.
  const char* name;
  /// As it is shown: "RESP".
  const char* title;
  /// Where it is served unless the options say otherwise; nowhere where this is empty.
  const char* default_address;
  /// Makes what serves its connections, of all its listeners. Throws StoreError.
  MakeHandler (*handlers)(const std::shared_ptr<ServerContext>& context);
  /// What a client is sent for whom there is no connection left.
  std::string_view refusal;
  StreamTimeouts timeouts;
  /// Where it is served, the other protocols leave to it what only operators ask for
  /// (ServerContext::admin_is_apart()).
  bool is_admin = false;
};

/// Every protocol there is.
std::span<const ServedProtocol> protocols();

}  // namespace sluice

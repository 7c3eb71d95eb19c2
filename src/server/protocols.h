#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "net/stream_handler.h"
#include "service/server_context.h"

namespace sluice {

/// A protocol that the server speaks.
struct ServedProtocol {
  /// The name in ServerOptions and of its option: "resp" for --resp.
  const char* name;
  /// The name for people: "RESP".
  const char* title;
  /// The address without options. If empty, the protocol is not served by default.
  const char* default_address;
  /// Makes the factory of handlers for the connections of all its listeners. Throws StoreError.
  MakeHandler (*handlers)(const std::shared_ptr<ServerContext>& context);
  /// The reply to a client that connects when the server has no connection left.
  std::string_view refusal;
  StreamTimeouts timeouts;
  /// If it is served, the paths for operators are served by this protocol only
  /// (ServerContext::admin_is_apart()).
  bool is_admin = false;
};

/// All protocols.
std::span<const ServedProtocol> protocols();

}  // namespace sluice

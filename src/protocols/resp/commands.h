#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "protocols/resp/decision_replies.h"
#include "protocols/resp/throttle_limits.h"
#include "protocols/resp/writer.h"
#include "service/server_context.h"

namespace sluice::resp {

/// What RESP's connections of one serving thread share. Not thread-safe.
struct ThreadState {
  /// Throws StoreError where the store cannot open the space of CL.THROTTLE.
  ThreadState(std::shared_ptr<ServerContext> shared, std::size_t thread)
      : server(std::move(shared)),
        context(server->thread(thread)),
        throttle_limits(server->store()) {}

  const std::shared_ptr<ServerContext> server;
  ThreadContext& context;
  ThrottleLimits throttle_limits;
};

/// The longest name that a client may give its connection, which keeps it.
inline constexpr std::size_t kMaxNameBytes = 256;

/// What a connection's commands have said about it.
struct Peer {
  std::int64_t id = 0;
  Protocol protocol = Protocol::kResp2;
  /// At most kMaxNameBytes.
  std::string name;
  /// No more commands are read; what has been answered is still sent.
  bool closing = false;
};

/// What a command works with.
struct CommandContext {
  ThreadState& thread;
  Peer& peer;
  std::string& output;

  /// For a reply that is not a decision, and so comes after the decisions asked for so far. Made
  /// anew for each reply, since HELLO changes the protocol.
  Writer reply() const { return {thread.context.batch.other_replies(output), peer.protocol}; }
};

/// The command's name is the first, a subcommand's the second.
using Arguments = std::span<const std::string_view>;

/// Runs a command, or replies why there is none such. REQUIRES: at least one argument.
void run_command(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

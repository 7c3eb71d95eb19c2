#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocols/resp/clients.h"
#include "protocols/resp/command_counters.h"
#include "protocols/resp/decision_replies.h"
#include "protocols/resp/increx_limits.h"
#include "protocols/resp/throttle_limits.h"
#include "protocols/resp/transaction.h"
#include "protocols/resp/writer.h"
#include "service/access.h"
#include "service/server_context.h"

namespace sluice::resp {

/// The state that all connections of RESP share. Thread-safe.
struct SharedState {
  explicit SharedState(const ServerContext& server)
      : increx_periods(server.store()), commands(server.threads()) {}

  IncrexPeriods increx_periods;
  Clients clients;
  std::vector<CommandCounters> commands;  // Of each thread.
};

/// The state that RESP's connections of one serving thread share. Not thread-safe.
struct ThreadState {
  /// Throws StoreError if the store cannot open the space of CL.THROTTLE.
  ThreadState(std::shared_ptr<ServerContext> server_context, std::size_t thread,
              std::shared_ptr<SharedState> shared_state)
      : server(std::move(server_context)),
        context(server->thread(thread)),
        shared(std::move(shared_state)),
        counters(server->protocol("resp")),
        commands(shared->commands[thread]),
        throttle_limits(server->store()),
        increx_limits(shared->increx_periods) {}

  const std::shared_ptr<ServerContext> server;
  ThreadContext& context;
  const std::shared_ptr<SharedState> shared;
  ProtocolCounters& counters;
  CommandCounters& commands;
  ThrottleLimits throttle_limits;
  IncrexLimits increx_limits;
};

/// What a connection does with the next command.
enum class Mode : std::uint8_t {
  kRun,      ///< Runs it.
  kQueue,    ///< Queues it, since MULTI.
  kExec,     ///< Runs the queued commands first, since EXEC.
  kClosing,  ///< Reads none any more; what has been answered is still sent.
};

/// What a connection's client has set by commands.
struct Peer {
  std::int64_t id = 0;
  /// Its address, as AcceptedStream has it.
  std::string address = {};
  ClientAccess access;
  Protocol protocol = Protocol::kResp2;
  Mode mode = Mode::kRun;
  Transaction transaction = {};
  /// Above 0: the last command waits for the decisions of this batch, or needs more requests than
  /// the batch has left. It is run again, and continues at this argument.
  std::size_t resume_at = 0;
};

/// Notes for CLIENT LIST which user the peer is. Must be called whenever this may have changed.
inline void note_user(ThreadState& thread, const Peer& peer) {
  thread.shared->clients.update(peer.id, [&](ClientInfo& client) {
    client.user = peer.access.has_users() ? peer.access.identity().name : "default";
  });
}

/// The arguments of a command's function.
struct CommandContext {
  ThreadState& thread;
  Peer& peer;
  DecisionReplies& replies;
  std::string& output;
  /// How many more commands may run, or requests be added to the batch, before the store decides
  /// it.
  std::size_t room = DecisionBatch::kMaxRequests;

  /// Writes a reply that is not a decision. It follows the replies to the requests added so far.
  /// Call this for each reply, since HELLO changes the protocol.
  Writer reply() const { return {thread.context.batch.other_replies(output), peer.protocol}; }

  /// Ends the batch. When the store has decided it, the command is run again, and continues at this
  /// argument. REQUIRES: argument >= 1.
  void go_on_later(std::size_t argument) {
    assert(argument >= 1);
    peer.resume_at = argument;
    room = 0;
  }

  /// Ends the batch. For a command that reports counts of decisions, or must be the only one of its
  /// batch: true if requests before it are not decided yet. The command must then return; it is run
  /// again when they are. What is sent after it waits until its reply has been sent.
  bool waits_for_decisions() {
    const bool waits = !thread.context.batch.is_empty();
    peer.resume_at = waits ? 1 : 0;
    room = 0;
    return waits;
  }
};

/// The first is the command's name, the second may be that of a subcommand.
using Arguments = std::span<const std::string_view>;

}  // namespace sluice::resp

#include <cassert>
#include <string>

#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"

namespace sluice::resp {
namespace {

void end_transaction(Peer& peer) {
  peer.transaction.clear();
  peer.mode = Mode::kRun;
}

}  // namespace

void run_multi(CommandContext& context, Arguments) {
  if (context.peer.mode == Mode::kQueue) {
    return context.reply().error("ERR MULTI calls can not be nested");
  }
  context.peer.mode = Mode::kQueue;
  context.reply().simple("OK");
}

void run_exec(CommandContext& context, Arguments) {
  Peer& peer = context.peer;
  if (peer.mode != Mode::kQueue) return context.reply().error("ERR EXEC without MULTI");
  if (peer.transaction.is_aborted()) {
    end_transaction(peer);
    return context.reply().error("EXECABORT Transaction discarded because of previous errors.");
  }
  if (peer.transaction.size() == 0) {
    peer.mode = Mode::kRun;
    return context.reply().array(0);
  }
  peer.mode = Mode::kExec;
  context.room = 0;  // The queued commands are batches of their own.
}

void run_discard(CommandContext& context, Arguments) {
  Peer& peer = context.peer;
  if (peer.mode != Mode::kQueue) return context.reply().error("ERR DISCARD without MULTI");
  end_transaction(peer);
  context.reply().simple("OK");
}

void run_watch(CommandContext& context, Arguments) {
  if (context.peer.mode == Mode::kQueue) {
    return context.reply().error("ERR WATCH inside MULTI is not allowed");
  }
  context.reply().simple("OK");
}

void run_unwatch(CommandContext& context, Arguments) {
  context.reply().simple("OK");
}

void queue_command(CommandContext& context, Arguments arguments, std::string_view sent) {
  Peer& peer = context.peer;
  assert(!arguments.empty() && peer.mode == Mode::kQueue);
  const Command* const command = resolve_command(context, arguments);
  if (command == nullptr) {
    peer.transaction.abort();
    // As in Redis, an EXEC that is refused ends the transaction. Otherwise a client whose user has
    // been removed could not log in again: AUTH would be queued.
    const Command* const refused = find_command(arguments[0]);
    if (refused != nullptr && refused->name == "EXEC") end_transaction(peer);
    return;
  }
  if ((command->flags & kImmediate) != 0) return command->run(context, arguments);
  if (peer.transaction.is_aborted()) return context.reply().simple("QUEUED");
  if (peer.transaction.add(sent)) return context.reply().simple("QUEUED");
  peer.transaction.abort();
  context.reply().error("ERR a transaction has at most " +
                        std::to_string(Transaction::kMaxCommands) + " commands, together at most " +
                        std::to_string(Transaction::kMaxBytes) + " bytes");
}

}  // namespace sluice::resp

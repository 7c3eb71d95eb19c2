#pragma once

#include <string_view>

#include "protocols/resp/context.h"

namespace sluice::resp {

// What the commands do: each function runs one. The table of commands is in command_table.cc.

// limit_commands.cc: the commands that begin with SLUICE. They refer to a limit by its name or its
// expression: arguments[1].
/// A request for the key arguments[2] and arguments[3] units, or 1.
void run_of_units(CommandContext& context, Arguments arguments, Operation operation, Form form);
/// A request for the key arguments[2] and the permit arguments[3].
void run_of_permit(CommandContext& context, Arguments arguments, Operation operation);
void run_sluice_acquire(CommandContext& context, Arguments arguments);
void run_sluice_block(CommandContext& context, Arguments arguments);
void run_sluice_checkall(CommandContext& context, Arguments arguments);
void run_sluice_limits(CommandContext& context, Arguments arguments);
void run_sluice_peek(CommandContext& context, Arguments arguments);
void run_sluice_reset(CommandContext& context, Arguments arguments);
void run_sluice_top(CommandContext& context, Arguments arguments);

// key_commands.cc: the commands of other limiters, whose arguments are a key and the numbers of a
// limit. DEL forgets keys of these.
void run_cl_throttle(CommandContext& context, Arguments arguments);
void run_throttle(CommandContext& context, Arguments arguments);
void run_increx(CommandContext& context, Arguments arguments);
void run_del(CommandContext& context, Arguments arguments);

// transaction_commands.cc: MULTI and what belongs to it. The commands that are queued after MULTI
// are run in order by EXEC, each as if it were sent alone: those of other connections may come
// between them. So WATCH has no effect.
void run_multi(CommandContext& context, Arguments arguments);
void run_exec(CommandContext& context, Arguments arguments);
void run_discard(CommandContext& context, Arguments arguments);
void run_watch(CommandContext& context, Arguments arguments);
void run_unwatch(CommandContext& context, Arguments arguments);

/// Queues a command after MULTI, or runs it at once if it is one that MULTI does not queue. `sent`
/// are its bytes, as they were sent. REQUIRES: at least one argument; the mode is kQueue.
void queue_command(CommandContext& context, Arguments arguments, std::string_view sent);

// connection_commands.cc: the commands of a connection, as in Redis.
void run_ping(CommandContext& context, Arguments arguments);
void run_echo(CommandContext& context, Arguments arguments);
void run_hello(CommandContext& context, Arguments arguments);
void run_auth(CommandContext& context, Arguments arguments);
void run_select(CommandContext& context, Arguments arguments);
void run_client_getname(CommandContext& context, Arguments arguments);
void run_client_id(CommandContext& context, Arguments arguments);
void run_client_info(CommandContext& context, Arguments arguments);
void run_client_list(CommandContext& context, Arguments arguments);
void run_client_setinfo(CommandContext& context, Arguments arguments);
void run_client_setname(CommandContext& context, Arguments arguments);
void run_quit(CommandContext& context, Arguments arguments);
void run_reset(CommandContext& context, Arguments arguments);

// server_commands.cc: the commands about the commands and the server. HELP is a subcommand of
// several, of which arguments[0] says which.
void run_help(CommandContext& context, Arguments arguments);
void run_command_list(CommandContext& context, Arguments arguments);
void run_command_count(CommandContext& context, Arguments arguments);
void run_command_docs(CommandContext& context, Arguments arguments);
void run_command_info(CommandContext& context, Arguments arguments);
void run_config_get(CommandContext& context, Arguments arguments);
void run_dbsize(CommandContext& context, Arguments arguments);
void run_time(CommandContext& context, Arguments arguments);

// info_command.cc: the given sections, or all.
void run_info(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

// The commands of a connection, as in Redis.
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

}  // namespace sluice::resp

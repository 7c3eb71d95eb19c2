#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

// The commands about the commands and the server.
void run_client_help(CommandContext& context, Arguments arguments);
void run_command_list(CommandContext& context, Arguments arguments);
void run_command_count(CommandContext& context, Arguments arguments);
void run_command_docs(CommandContext& context, Arguments arguments);
void run_command_help(CommandContext& context, Arguments arguments);
void run_command_info(CommandContext& context, Arguments arguments);
void run_config_get(CommandContext& context, Arguments arguments);
void run_config_help(CommandContext& context, Arguments arguments);
void run_dbsize(CommandContext& context, Arguments arguments);
void run_time(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

// The commands of other limiters, whose arguments are a key and the numbers of a limit.
void run_cl_throttle(CommandContext& context, Arguments arguments);
void run_throttle(CommandContext& context, Arguments arguments);
void run_increx(CommandContext& context, Arguments arguments);

/// Forgets keys of these commands.
void run_del(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

// The commands that begin with SLUICE. They refer to a limit by its name or its expression.
void run_sluice_acquire(CommandContext& context, Arguments arguments);
void run_sluice_block(CommandContext& context, Arguments arguments);
void run_sluice_charge(CommandContext& context, Arguments arguments);
void run_sluice_check(CommandContext& context, Arguments arguments);
void run_sluice_checkall(CommandContext& context, Arguments arguments);
void run_sluice_limits(CommandContext& context, Arguments arguments);
void run_sluice_peek(CommandContext& context, Arguments arguments);
void run_sluice_refund(CommandContext& context, Arguments arguments);
void run_sluice_release(CommandContext& context, Arguments arguments);
void run_sluice_renew(CommandContext& context, Arguments arguments);
void run_sluice_reset(CommandContext& context, Arguments arguments);
void run_sluice_take(CommandContext& context, Arguments arguments);
void run_sluice_top(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

#pragma once

#include <string_view>

#include "protocols/resp/context.h"

namespace sluice::resp {

// MULTI and what belongs to it. The commands that are queued after MULTI are run in order by EXEC,
// each as if it were sent alone: those of other connections may come between them. So WATCH has no
// effect.
void run_multi(CommandContext& context, Arguments arguments);
void run_exec(CommandContext& context, Arguments arguments);
void run_discard(CommandContext& context, Arguments arguments);
void run_watch(CommandContext& context, Arguments arguments);
void run_unwatch(CommandContext& context, Arguments arguments);

/// Queues a command after MULTI, or runs it at once if it is one that MULTI does not queue. `sent`
/// are its bytes, as they were sent. REQUIRES: at least one argument; the mode is kQueue.
void queue_command(CommandContext& context, Arguments arguments, std::string_view sent);

}  // namespace sluice::resp

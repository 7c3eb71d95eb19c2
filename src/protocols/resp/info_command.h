#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

/// INFO: the sections that are asked for, or all of them.
void run_info(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

#pragma once

#include "protocols/resp/context.h"

namespace sluice::resp {

/// INFO: the given sections, or all.
void run_info(CommandContext& context, Arguments arguments);

}  // namespace sluice::resp

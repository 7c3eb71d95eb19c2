#pragma once

#include "server/log.h"
#include "server/server_options.h"

namespace sluice {

/// Throws ConfigError where Server would refuse the options, as far as that can be known without
/// opening anything: its addresses may still be taken, and its store not answer.
void check_options(const ServerOptions& options);

/// Logs a warning of each option that can be served, and is most likely a mistake.
void warn_of_options(const ServerOptions& options, const LogFunction& log);

}  // namespace sluice

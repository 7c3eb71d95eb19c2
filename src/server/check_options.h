#pragma once

#include <vector>

#include "server/listening.h"
#include "server/log.h"
#include "server/server_options.h"

namespace sluice {

/// Throws ConfigError where Server refuses the store, the limits or the snapshot of the options,
/// without connecting or writing. (read_addresses() and make_tls_servers() refuse the others.)
/// Whether a small store has room for all limits is known only when Server opens them.
void check_options(const ServerOptions& options);

/// Logs a warning of each option that can be served, and is most likely a mistake. `listening`: the
/// addresses of these options.
void warn_of_options(const ServerOptions& options, const std::vector<Listening>& listening,
                     const LogFunction& log);

}  // namespace sluice

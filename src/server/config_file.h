#pragma once

#include <string>
#include <string_view>

#include "server/server_options.h"

namespace sluice {

/// What the server's file (docs/configuration.md) says, and the defaults for what it does not say.
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at the first mistake.
ServerOptions parse_config(std::string_view yaml, const std::string& path);
/// The same, from the file. Also throws ConfigError if the file cannot be read.
ServerOptions read_config_file(const std::string& path);

/// What a file holds that says this, in one line. Defaults are left out.
std::string summary_of(const ServerOptions& options);

}  // namespace sluice

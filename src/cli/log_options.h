#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "replay/log.h"
#include "replay/run_command.h"

namespace sluice {

/// The process's streams for `sluice NAME`, which reads these files; says so if it waits for a
/// terminal. The results go to standard error if `is_taken`: a file of them is standard output.
replay::Streams streams_for(std::string_view name, const std::vector<std::string>& files,
                            bool is_taken, bool is_json);

/// Declares the options that say what to read: the files, --key, --format and --strict. `options`
/// must live until the command line is parsed.
void add_log_options(CLI::App& command, replay::LogOptions& options);

}  // namespace sluice

#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replay/replay_options.h"

namespace sluice {

/// The format of this name. Throws CLI::ValidationError.
replay::Format format_of(const std::string& name);

/// The process's streams for `sluice NAME`, which reads these files; says so if it waits for a
/// terminal. The results go to standard error if `is_taken`: a file of them is standard output.
replay::Streams streams_for(std::string_view name, const std::vector<std::string>& files,
                            bool is_taken, bool is_json);

/// Declares the options that say what to read: the files, --key, --format and --strict. `Options`
/// has the members of replay::ReplayOptions that they set.
template <class Options>
void add_log_options(CLI::App& command, const std::shared_ptr<Options>& options) {
  command
      .add_option("file", options->files,
                  "Logs, .gz too, merged by time; none or - is standard input")
      ->type_name("FILE");
  command
      .add_option_function<std::string>(
          "--key", [options](const std::string& key) { options->key = key; },
          "The key, with fields in braces: '{ip} {path}' (default: {ip} for logs, {key} for CSV "
          "and JSON Lines)")
      ->type_name("TEMPLATE");
  command
      .add_option_function<std::string>(
          "--format", [options](const std::string& name) { options->format = format_of(name); },
          "auto (the default), common, combined, csv or jsonl")
      ->type_name("FORMAT");
  command.add_flag("--strict", options->is_strict, "Stop at the first line that cannot be read");
}

}  // namespace sluice

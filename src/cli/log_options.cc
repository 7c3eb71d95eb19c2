#include "cli/log_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace sluice {

namespace {

/// The format of this name. Throws CLI::ValidationError.
replay::Format format_of(const std::string& name) {
  const auto found = std::ranges::find(replay::kFormatNames, name);
  if (found != replay::kFormatNames.end()) {
    return static_cast<replay::Format>(found - replay::kFormatNames.begin());
  }
  throw CLI::ValidationError("--format",
                             "\"" + name + "\" is none of auto, common, combined, csv, jsonl");
}

/// Whether colours suit the output on this descriptor: it is a terminal that has some, and the user
/// has not set NO_COLOR.
bool takes_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace

replay::Streams streams_for(std::string_view name, const std::vector<std::string>& files,
                            bool is_taken, bool is_json) {
  if (files.empty() && isatty(STDIN_FILENO) == 1) {
    std::cerr << "sluice " << name << ": reading standard input\n";
  }
  return {.out = std::cout,
          .err = std::cerr,
          .is_coloured = !is_json && takes_colour(is_taken ? STDERR_FILENO : STDOUT_FILENO),
          .progress_descriptor = isatty(STDERR_FILENO) == 1 ? STDERR_FILENO : -1};
}

void add_log_options(CLI::App& command, replay::LogOptions& options) {
  command
      .add_option("file", options.files,
                  "Logs, .gz too, merged by time; none or - is standard input")
      ->type_name("FILE");
  command
      .add_option("--key", options.key,
                  "The key, with fields in braces: '{ip} {path}' (default: {ip} for logs, {key} "
                  "for CSV and JSON Lines)")
      ->type_name("TEMPLATE");
  command
      .add_option_function<std::string>(
          "--format", [&options](const std::string& name) { options.format = format_of(name); },
          "auto (the default), common, combined, csv or jsonl")
      ->type_name("FORMAT");
  command.add_flag("--strict", options.is_strict, "Stop at the first line that cannot be read");
}

}  // namespace sluice

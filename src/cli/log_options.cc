#include "cli/log_options.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <string_view>

namespace sluice {

replay::Format format_of(const std::string& name) {
  const auto found = std::ranges::find(replay::kFormatNames, name);
  if (found != replay::kFormatNames.end()) {
    return static_cast<replay::Format>(found - replay::kFormatNames.begin());
  }
  throw CLI::ValidationError("--format",
                             "\"" + name + "\" is none of auto, common, combined, csv, jsonl");
}

namespace {

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

}  // namespace sluice

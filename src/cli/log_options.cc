#include "cli/log_options.h"

#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string_view>

namespace sluice {

replay::Format format_of(const std::string& name) {
  static const std::map<std::string, replay::Format> kFormats = {
      {"auto", replay::Format::kAuto},         {"common", replay::Format::kCommon},
      {"combined", replay::Format::kCombined}, {"csv", replay::Format::kCsv},
      {"jsonl", replay::Format::kJsonLines},
  };
  const auto found = kFormats.find(name);
  if (found != kFormats.end()) return found->second;
  throw CLI::ValidationError("--format",
                             "\"" + name + "\" is none of auto, common, combined, csv, jsonl");
}

bool takes_colour(int descriptor) {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  return isatty(descriptor) == 1 && (no_colour == nullptr || *no_colour == '\0') &&
         terminal != nullptr && std::string_view(terminal) != "dumb";
}

}  // namespace sluice

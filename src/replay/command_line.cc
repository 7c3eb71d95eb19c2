#include "replay/command_line.h"

#include <algorithm>
#include <string_view>

#include "stores/stores.h"

namespace sluice::replay {
namespace {

bool is_plain(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("-_./:@%+=,").find(c) != std::string_view::npos;
}

std::string quoted(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

void append_option(std::string& out, std::string_view name, std::string_view value) {
  out.append(" ").append(name).append(" ").append(quoted(value));
}

}  // namespace

std::string command_line(const ReplayOptions& options) {
  std::string out = "sluice replay";
  for (const std::string& file : options.files) out += ' ' + quoted(file);
  for (const std::string& limit : options.limits) append_option(out, "--limit", limit);
  if (options.key) append_option(out, "--key", *options.key);
  if (options.format != Format::kAuto) {
    append_option(out, "--format", kFormatNames[static_cast<std::size_t>(options.format)]);
  }
  if (options.store != ReplayOptions().store) {
    append_option(out, "--store", StoreUrl(options.store).text());
  }
  if (!options.decisions.empty()) append_option(out, "--decisions", options.decisions);
  if (options.is_strict) out += " --strict";
  if (options.is_json) out += " --json";
  if (options.has_plot) out += " --plot";
  if (!options.html.empty()) append_option(out, "--html", options.html);
  return out;
}

}  // namespace sluice::replay

#include "replay/command_line.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/ascii.h"
#include "core/safe_text.h"
#include "stores/stores.h"

namespace sluice::replay {
namespace {

bool is_plain(char c) {
  return is_letter_or_digit(c) || std::string_view("-_./:@%+=,").find(c) != std::string_view::npos;
}

/// A word as $'…', without a byte that a terminal might interpret. It has no apostrophe, so that a
/// shell that does not know this form reads it as other text, but runs nothing of it.
std::string escaped(std::string_view word) {
  std::string out = "$'";
  for (const char c : word) {
    if (c >= ' ' && c <= '~' && c != '\'' && c != '\\') {
      out += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    out += '\\';
    for (const int shift : {6, 3, 0}) out += static_cast<char>('0' + (byte >> shift & 7));
  }
  return out + "'";
}

std::string quoted(std::string_view word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return std::string(word);
  if (!is_printable(word)) return escaped(word);
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'') {
      out += R"('"'"')";
    } else {
      out += c;
    }
  }
  return out + "'";
}

/// A file as an argument that is not taken for an option.
std::string file_argument(const std::string& file) {
  return quoted(file.starts_with('-') && file != "-" ? "./" + file : file);
}

}  // namespace

std::string command_line(const ReplayOptions& options) {
  std::vector<std::string> arguments;
  const auto add = [&](std::string_view name, std::string_view value) {
    arguments.push_back(std::string(name) + ' ' + quoted(value));
  };
  for (const std::string& file : options.log.files) arguments.push_back(file_argument(file));
  for (const std::string& limit : options.limits) add("--limit", limit);
  if (options.log.key) add("--key", *options.log.key);
  if (options.log.format != Format::kAuto) {
    add("--format", kFormatNames[static_cast<std::size_t>(options.log.format)]);
  }
  if (options.store != ReplayOptions().store) add("--store", StoreUrl(options.store).text());
  if (!options.decisions.empty()) add("--decisions", options.decisions);
  if (options.log.is_strict) arguments.emplace_back("--strict");
  if (options.is_json) arguments.emplace_back("--json");
  if (options.has_plot) arguments.emplace_back("--plot");
  if (!options.html.empty()) add("--html", options.html);
  constexpr std::string_view kRest = " …";
  std::string out = "sluice replay";
  for (const std::string& argument : arguments) {
    if (out.size() + 1 + argument.size() + kRest.size() > kMaxCommandBytes) {
      return out.append(kRest);
    }
    out.append(" ").append(argument);
  }
  return out;
}

}  // namespace sluice::replay

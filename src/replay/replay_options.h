#pragma once

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "replay/record.h"

namespace sluice::replay {

inline constexpr std::size_t kMaxLimits = 64;

struct ReplayOptions {
  /// Their requests are merged by time; "-" is standard input, and so is an empty list.
  std::vector<std::string> files = {};
  /// Limit expressions, 1 to kMaxLimits, all different; each decides independently.
  std::vector<std::string> limits = {};
  /// The key template (key_template.h); without one the format's default.
  std::optional<std::string> key = {};
  Format format = Format::kAuto;
  /// As open_store() takes it.
  std::string store = "memory:";
  /// The file for all decisions as JSON Lines; "-" is standard output, empty is none.
  std::string decisions = {};
  /// The file for the report as a web page; "-" is standard output, empty is none. REQUIRES then:
  /// at most kMaxCharted limits.
  std::string html = {};
  /// Add a plot of the denied requests over time to the tables: of at most kMaxCharted limits, and
  /// not with is_json.
  bool has_plot = false;
  /// Stop at the first line that cannot be parsed.
  bool is_strict = false;
  /// Print the summary as JSON instead of tables.
  bool is_json = false;
};

/// What a command prints to.
struct Streams {
  /// For the results as text or JSON. If a file of them goes to standard output, they go to `err`.
  std::ostream& out;
  /// For errors, warnings, and the first lines that cannot be parsed.
  std::ostream& err;
  bool is_coloured = false;
  /// A terminal for the progress bar, or -1.
  int progress_descriptor = -1;
};

}  // namespace sluice::replay

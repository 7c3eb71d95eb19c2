#pragma once

#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "replay/record.h"

namespace sluice::replay {

struct ReplayOptions {
  /// Read in this order; "-" is standard input, and so is an empty list.
  std::vector<std::string> files = {};
  /// Limit expressions, 1 to kMaxLimits, all different; each is judged on its own.
  std::vector<std::string> limits = {};
  /// The key template (key_template.h); without one the format's default.
  std::optional<std::string> key = {};
  Format format = Format::kAuto;
  /// As open_store() takes it.
  std::string store = "memory:";
  /// Where every decision goes as JSON Lines; "-" is standard output, empty is nowhere.
  std::string decisions = {};
  /// Stop at the first line that cannot be read.
  bool is_strict = false;
  /// The summary is JSON instead of tables.
  bool is_json = false;
};

struct ReplayStreams {
  /// The summary. With the decisions on standard output it goes to `err` instead.
  std::ostream& out;
  /// Errors, and the first lines that cannot be read.
  std::ostream& err;
  bool is_coloured = false;
  /// A terminal for the progress bar, or -1.
  int progress_descriptor = -1;
};

inline constexpr std::size_t kMaxLimits = 64;

/// Judges logged requests at the instants the log gives and says who would have been limited. Reads
/// no clock but for the progress bar: the same input gives the same output, byte for byte.
///
/// Returns the exit status: 0; 1 where the input cannot be read (a file, a line with is_strict, or
/// every line) or the output not be written, or the store cannot go on; 2 where the options make no
/// sense. Unless it is 0, `err` got one sentence that says why. Where the store could not remove
/// its keys afterwards, which changes no result, `err` got one that says what may be left.
int run_replay(const ReplayOptions& options, const ReplayStreams& streams);

}  // namespace sluice::replay

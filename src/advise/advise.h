#pragma once

#include <optional>
#include <string>
#include <vector>

#include "advise/traffic.h"
#include "replay/replay_options.h"

namespace sluice::advise {

struct AdviseOptions {
  /// Their requests are merged by time; "-" is standard input, and so is an empty list.
  std::vector<std::string> files = {};
  /// The key template (replay/key_template.h); without one the format's default.
  std::optional<std::string> key = {};
  replay::Format format = replay::Format::kAuto;
  /// Stop at the first line that cannot be parsed.
  bool is_strict = false;
  /// The file for the advice as a web page; "-" is standard output, empty is none.
  std::string html = {};
  /// Print JSON instead of text.
  bool is_json = false;
  /// About how much memory the keys may need; with more keys, a sample of them is kept.
  std::size_t max_bytes = kDefaultTrafficBytes;
};

/// Reads logged requests in one pass, and writes which limits would suit them. Reads no clock
/// except for the progress bar: the same input gives the same output, byte for byte.
///
/// Returns the exit status: 0; 1 if the input cannot be read (a file, a line with is_strict, or
/// every line) or the output cannot be written; 2 if the options are invalid. Unless it is 0, one
/// sentence on `err` says why.
int run_advise(const AdviseOptions& options, const replay::Streams& streams);

}  // namespace sluice::advise

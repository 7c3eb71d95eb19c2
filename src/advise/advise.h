#pragma once

#include <string>

#include "advise/traffic.h"
#include "replay/log.h"
#include "replay/run_command.h"

namespace sluice::advise {

struct AdviseOptions {
  replay::LogOptions log = {};
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

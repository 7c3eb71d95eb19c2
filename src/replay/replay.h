#pragma once

#include "replay/replay_options.h"
#include "replay/run_command.h"

namespace sluice::replay {

/// Decides logged requests at the instants in the log, and reports which requests would have been
/// denied. Reads no clock except for the progress bar: the same input gives the same output, byte
/// for byte.
///
/// Returns the exit status: 0; 1 if the input cannot be read (a file, a line with is_strict, or
/// every line), the output cannot be written, or the store fails; 2 if the options are invalid.
/// Unless it is 0, one sentence on `err` says why.
int run_replay(const ReplayOptions& options, const Streams& streams);

}  // namespace sluice::replay

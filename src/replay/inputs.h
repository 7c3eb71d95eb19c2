#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "replay/key_template.h"
#include "replay/log.h"

namespace sluice::replay {

/// A file that the user named.
struct Input {
  std::string path;
  /// The name for messages, safe for a terminal.
  std::string name;
  /// 0 if it is not known.
  std::uint64_t bytes = 0;
};

/// Logs that can be read, as far as can be known before they are opened.
struct Logs {
  /// The key template that the user gave, if any.
  std::optional<KeyTemplate> key;
  std::vector<Input> inputs;
  Format format = Format::kAuto;
  bool is_strict = false;
};

/// Checks the options, and every file before any is read. Does not open them, since a pipe can be
/// opened only once. Throws ReplayError.
Logs find_logs(const LogOptions& options);

/// Opens an input; the caller closes the descriptor. Throws ReplayError.
int open_input(const Input& input);

/// Whether the file with this status is one of the inputs.
bool is_read(const struct stat& file, const std::vector<Input>& inputs);

/// The system's words for an errno.
std::string why_not(int error);

}  // namespace sluice::replay

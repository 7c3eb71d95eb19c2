#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/exit_status.h"
#include "replay/key_template.h"
#include "replay/record.h"

namespace sluice::replay {

/// An error with one sentence for the user, without a full stop, and the program's exit status.
class ReplayError : public std::runtime_error {
 public:
  ReplayError(int status, const std::string& sentence)
      : std::runtime_error(sentence), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// A file that the user named.
struct Input {
  std::string path;
  /// The name for messages, safe for a terminal.
  std::string name;
  /// 0 if it is not known.
  std::uint64_t bytes = 0;
};

/// Checks every file before any is read; "-" is standard input, and so is an empty list. Does not
/// open them, since a pipe can be opened only once. Throws ReplayError.
std::vector<Input> find_inputs(const std::vector<std::string>& files);

/// The size of all inputs together, or 0 if one is not known.
std::uint64_t total_bytes(const std::vector<Input>& inputs);

/// Opens an input; the caller closes the descriptor. Throws ReplayError.
int open_input(const Input& input);

/// Whether the file with this status is one of the inputs.
bool is_read(const struct stat& file, const std::vector<Input>& inputs);

/// Whether two paths lead to one file, which may not exist yet: they are the same, or different
/// ones, or by links. An empty path is no file; "-" equals only "-".
bool is_one_file(const std::string& a, const std::string& b);

/// The key template that the user gave, if any. Throws ReplayError if it is wrong or fits no file
/// of this format.
std::optional<KeyTemplate> read_key(const std::optional<std::string>& key, Format format);

/// The system's words for an errno.
std::string why_not(int error);

}  // namespace sluice::replay

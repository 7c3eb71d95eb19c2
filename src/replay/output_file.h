#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "replay/inputs.h"

namespace sluice::replay {

/// A file, a pipe or a terminal to write to. Not thread-safe.
class OutputFile {
 public:
  /// Takes ownership of the open descriptor. `contents` ("the decisions") and `name` are used in
  /// error messages.
  OutputFile(int descriptor, std::string contents, std::string name);
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws std::runtime_error with one sentence if the text cannot be written.
  void write(std::string_view text);

  /// Closes a copy of the descriptor, since some file systems report errors only then. Throws as
  /// write().
  void finish();

  /// Removes all that is in the file, if that is possible.
  void clear();

 private:
  [[noreturn]] void fail(int error) const;

  int descriptor_;
  std::string contents_;
  std::string name_;
};

/// Creates or empties the file that an option names, "-" is standard output; null if it names none.
/// `contents` is used as in OutputFile. Throws ReplayError, also if the file is an input, or if
/// standard output is redirected to it: the summary would lie over it.
std::unique_ptr<OutputFile> open_output(std::string_view option, std::string_view contents,
                                        const std::string& path, const std::vector<Input>& inputs);

/// Writes a page to the file, which open_output() has opened for this path. If that fails, it
/// throws as OutputFile, and no part of the page is left in the file.
void write_page(OutputFile& file, const std::string& path, std::string_view page);

}  // namespace sluice::replay

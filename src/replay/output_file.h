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
  /// error messages; `is_standard` says that it is a copy of standard output's. `made`: the path of
  /// the file if opening has made it, otherwise empty.
  OutputFile(int descriptor, std::string contents, std::string name, bool is_standard = false,
             std::string made = {});
  /// Removes the file if opening has made it and clear() was not called: a call that is refused
  /// leaves none. What another process has written at this path stays.
  ~OutputFile();
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;

  /// Throws std::runtime_error with one sentence if the text cannot be written.
  void write(std::string_view text);

  /// Closes a copy of the descriptor, since some file systems report errors only then. Throws as
  /// write().
  void finish();

  /// Removes all that is in the file, if that is possible, but not what others have written to
  /// standard output. The file stays from now on.
  void clear();

  /// Whether the other one writes to the same place. Into a device (/dev/null, a terminal) both may
  /// write, unless they are standard output.
  bool is_same(const OutputFile& other) const;

  const std::string& contents() const { return contents_; }

 private:
  [[noreturn]] void fail(int error) const;

  int descriptor_;
  std::string contents_;
  std::string name_;
  bool is_standard_;
  std::string made_;  // The path of a file that does not stay yet.
};

/// Opens or creates the file that an option names, "-" is standard output; null if it names none.
/// Does not empty it: see clear(). `contents` is used as in OutputFile. Throws ReplayError, also if
/// the file is an input, or the `other` output, if there is one, or if standard output is
/// redirected to it: the summary would lie over it.
std::unique_ptr<OutputFile> open_output(std::string_view option, std::string_view contents,
                                        const std::string& path, const std::vector<Input>& inputs,
                                        const OutputFile* other = nullptr);

/// Writes a page to the file. If that fails, it throws as OutputFile, and no part of the page is
/// left in the file.
void write_page(OutputFile& file, std::string_view page);

}  // namespace sluice::replay

#pragma once

#include <string>
#include <string_view>

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

  /// Closes the descriptor, since some file systems report errors only then. Throws as write().
  /// REQUIRES: called once, as the last call.
  void finish();

 private:
  [[noreturn]] void fail(int error) const;

  int descriptor_;
  std::string contents_;
  std::string name_;
};

}  // namespace sluice::replay

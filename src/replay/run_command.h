#pragma once

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice::replay {

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

/// An error with one sentence for the user, without a full stop, and the program's exit status.
class ReplayError : public std::runtime_error {
 public:
  ReplayError(int status, const std::string& sentence)
      : std::runtime_error(sentence), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

/// Runs a command, "sluice replay", and returns the exit status that `run` returns. If `run`
/// throws, writes the exception's sentence to `err`, and returns the status of a ReplayError, or
/// kFailed.
int run_command(std::string_view command, std::ostream& err, const std::function<int()>& run);

/// Prints what a command has found. `what` is for the sentence of the ReplayError that it throws if
/// that is impossible: "the summary".
void print(std::string_view what, const std::string& text, std::ostream& out);

}  // namespace sluice::replay

#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

#include "replay/judge.h"
#include "replay/key_template.h"
#include "replay/line_source.h"
#include "replay/progress.h"
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

struct FeedOptions {
  std::optional<KeyTemplate> key;
  Format format = Format::kAuto;
  bool is_strict = false;
};

/// A file to read: an open descriptor, and its name for messages, safe for a terminal.
struct OpenFile {
  int descriptor = -1;
  std::string name;
};

/// Reads files line by line and passes their requests to a judge. Counts lines that cannot be
/// parsed, and shows the first few. Skips empty lines. Not thread-safe.
class Feed {
 public:
  /// The judge, the stream and the bar must outlive the feed.
  Feed(FeedOptions options, Judge& judge, std::ostream& err, Progress& progress)
      : options_(std::move(options)), judge_(judge), err_(err), progress_(progress) {}

  /// Takes ownership of the descriptor, and reads to the end, or up to damaged input, which it
  /// reports. Throws ReplayError (status 2: the file has no such field for the key; 1: a CSV header
  /// is missing, or with is_strict a line cannot be parsed) and the exceptions of the judge.
  void read(const OpenFile& file);

  std::uint64_t unreadable() const { return unreadable_; }

  /// Whether a file was damaged; a message has been written then.
  bool is_damaged() const { return is_damaged_; }

  /// The templates of the keys: one, unless files of different formats used their defaults.
  const std::string& keys_used() const { return keys_used_; }

 private:
  bool choose_reader(const Line& line, const OpenFile& file);
  Reading read_record(LineSource& source, const Line& line);
  void refuse(const Line& line, const OpenFile& file);

  FeedOptions options_;
  Judge& judge_;
  std::ostream& err_;
  Progress& progress_;
  std::unique_ptr<LineReader> reader_;
  std::optional<KeyTemplate> key_;
  Record record_;
  std::string reason_;
  std::string keys_used_;
  Position position_;
  std::uint64_t unreadable_ = 0;
  bool is_damaged_ = false;
};

}  // namespace sluice::replay

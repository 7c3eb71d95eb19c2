#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "replay/inputs.h"
#include "replay/key_template.h"
#include "replay/line_source.h"
#include "replay/progress.h"
#include "replay/record.h"
#include "replay/time_order.h"

namespace sluice::replay {

struct FeedOptions {
  /// The command that the user started, for messages: "sluice replay".
  std::string_view command;
  std::optional<KeyTemplate> key;
  Format format = Format::kAuto;
  bool is_strict = false;
  /// A limit that lends permits, of which there is a warning at the first cost above 1; or empty.
  std::string permit_limit = {};
};

/// Reads files line by line and passes their requests on. Merges several files: passes on the
/// earliest of their next requests; if several have that time, that of the first file. Counts lines
/// that cannot be parsed, and shows the first few. Skips empty lines. Not thread-safe.
class Feed {
 public:
  /// The order, the stream and the bar must outlive the feed.
  Feed(FeedOptions options, TimeOrder& order, std::ostream& err, Progress& progress)
      : options_(std::move(options)), order_(order), err_(err), progress_(progress) {}

  /// Opens all files, and reads each to its end, or up to damaged input, which it reports. Throws
  /// ReplayError (status 2: a file has no such field for the key; 1: it cannot be opened, a CSV
  /// header is missing, or with is_strict a line cannot be parsed) and the exceptions of the
  /// order's sink. REQUIRES: called once.
  void read(const std::vector<Input>& inputs);

  std::uint64_t unreadable() const { return unreadable_; }

  /// Whether a file was damaged; a message has been written then.
  bool is_damaged() const { return is_damaged_; }

  /// The templates of the keys: one, unless files of different formats used their defaults.
  const std::string& keys_used() const { return keys_used_; }

 private:
  struct File;

  bool next_record(File& file);
  bool choose_reader(const Line& line, File& file);
  Reading read_record(const Line& line, File& file);
  void refuse(const Line& line, const File& file);
  void warn_of_cost(const Line& line, const File& file);
  void count_bytes(File& file);

  FeedOptions options_;
  TimeOrder& order_;
  std::ostream& err_;
  Progress& progress_;
  std::string reason_;
  std::string keys_used_;
  Position position_;
  std::uint64_t unreadable_ = 0;
  bool is_damaged_ = false;
  /// The most records of a file with far later times in a row that the merge does not believe.
  std::size_t most_far_ = 0;
};

}  // namespace sluice::replay

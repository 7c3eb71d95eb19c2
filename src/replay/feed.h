#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "replay/inputs.h"
#include "replay/line_source.h"
#include "replay/log.h"
#include "replay/progress.h"
#include "replay/record.h"
#include "replay/request_sink.h"
#include "replay/run_command.h"
#include "replay/time_order.h"

namespace sluice::replay {

/// Reads files line by line and passes their requests to a sink in the order of their times. Merges
/// several files: takes the earliest of their next requests; if several have that time, that of the
/// first file. Counts lines that cannot be parsed, and shows the first few. Skips empty lines.
/// Shows its progress. Not thread-safe.
class Feed {
 public:
  /// `command` is what the user started, for messages: "sluice replay". The logs, the sink and the
  /// streams must outlive the feed.
  Feed(std::string_view command, const Logs& logs, RequestSink& sink, const Streams& streams);

  /// Has read() warn of the first cost above 1, which this limit, that lends permits, denies.
  void warn_of_cost(std::string limit) { permit_limit_ = std::move(limit); }

  /// Opens all files, and reads each to its end, or up to damaged input, which it reports. Throws
  /// ReplayError (status 2: a file has no such field for the key; 1: it cannot be opened, a CSV
  /// header is missing, no line or with is_strict one line cannot be parsed), when all requests
  /// before are passed on, and the exceptions of the sink. REQUIRES: called once.
  void read();

  /// What was read, also if read() has thrown.
  LogSummary summary() const;

  /// Says how many requests could not be put into the order of time, if there are any.
  void warn_of_late();

 private:
  struct File;

  void merge();
  bool next_record(File& file);
  void count(Instant time_ns);
  bool choose_reader(const Line& line, File& file);
  Reading read_record(const Line& line, File& file);
  void refuse(const Line& line, const File& file);
  void warn_of_cost(const Line& line, const File& file);
  void count_bytes(File& file);

  std::string_view command_;
  const Logs& logs_;
  TimeOrder order_;
  std::ostream& err_;
  Progress progress_;
  std::string permit_limit_;
  std::string reason_;
  Position position_;
  /// Without the late requests.
  LogSummary summary_;
  /// The most records of a file with far later times in a row that the merge does not believe.
  std::size_t most_far_ = 0;
};

}  // namespace sluice::replay

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"

namespace sluice::replay {

/// A line longer than this cannot be read, nor can a template be.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

/// One request, as read from a line. The fields refer to the line or to the reader, until the
/// reader is given the next line.
struct Record {
  Instant time_ns = 0;
  /// 0 to kMaxCount; 0 is a peek.
  std::int64_t cost = 1;
  /// By slot: see LineReader::slot().
  std::vector<std::string_view> fields;
};

enum class Reading : std::uint8_t {
  kRecord,
  kUnreadable,
  /// The line ends inside a quoted CSV field: with the next line appended it may be a record.
  kOpenQuote,
};

enum class Format : std::uint8_t { kAuto, kCommon, kCombined, kCsv, kJsonLines };

/// Reads the lines of one file in one format. Not thread-safe; keeps nothing between lines but
/// caches.
class LineReader {
 public:
  virtual ~LineReader() = default;

  /// Where in Record::fields the field of this name will stand; nothing if this format (or this
  /// CSV file) has no such field. Ask before the first read(). A JSON Lines reader knows any name,
  /// and from then on refuses lines without it.
  virtual std::optional<std::size_t> slot(std::string_view name) = 0;

  /// What slot() knows, for an error's sake: "ip, ident, user".
  virtual std::string known_fields() const = 0;

  /// The template that makes the key where the user gave none.
  virtual std::string_view default_key() const = 0;

  /// Reads one line, without its line end. Unless the answer is kRecord, `reason` says in a few
  /// words what is wrong, fit for a terminal. Never throws on any input.
  virtual Reading read(std::string_view line, Record& record, std::string& reason) = 0;
};

/// Apache's and nginx's logs; `format` is kCommon or kCombined. A virtual host may stand before the
/// client's address, if the ident is "-": a name, with or without a port (but not "unknown"), or an
/// address with a port below 10000, which is guessed to be a server's. A common reader ignores what
/// follows the bytes, a combined one what follows the user agent. Field texts are as written,
/// escapes too.
std::unique_ptr<LineReader> make_log_reader(Format format);

/// CSV (RFC 4180) with this header, which must name a column `time` (decimal seconds since the
/// epoch); `cost` is optional. Otherwise null, and `reason` says why.
std::unique_ptr<LineReader> make_csv_reader(std::string_view header, std::string& reason);

/// One JSON object a line, with `time` (decimal seconds since the epoch, read exactly) or
/// `time_ns`; `cost` is optional.
std::unique_ptr<LineReader> make_json_lines_reader();

/// The reader for a file, judged by its first line that makes sense.
struct Recognised {
  /// Null if the line fits no format; then `reason` says so.
  std::unique_ptr<LineReader> reader;
  /// The line was a CSV header and is used up; otherwise it is the first line to read.
  bool is_header = false;
};

/// Tries `line` against `wanted`, or with kAuto against every format.
Recognised recognise(std::string_view line, Format wanted, std::string& reason);

}  // namespace sluice::replay

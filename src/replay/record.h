#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/instant.h"

namespace sluice::replay {

/// The maximum length of a line, and of a key template.
inline constexpr std::size_t kMaxLineBytes = std::size_t{1} << 20;

/// One request, as read from a line. The fields refer to the line or to the reader; they are valid
/// until the reader reads the next line.
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

/// Their names, in the same order.
inline constexpr std::array<std::string_view, 5> kFormatNames = {"auto", "common", "combined",
                                                                 "csv", "jsonl"};

/// Reads the lines of one file in one format. Keeps only caches between lines. Not thread-safe.
class LineReader {
 public:
  virtual ~LineReader() = default;

  /// The index in Record::fields of the field with this name; nothing if this format (or this CSV
  /// file) has no such field. Records that are read from then on have the field. A JSON Lines
  /// reader accepts any name, and from then on rejects lines without it.
  virtual std::optional<std::size_t> slot(std::string_view name) = 0;

  /// As slot(), for a field that a line may lack: it is empty then.
  virtual std::optional<std::size_t> optional_slot(std::string_view name) { return slot(name); }

  /// The names that slot() knows; none if it accepts any.
  virtual std::vector<std::string_view> names() const = 0;

  /// Whether the field at this slot is a request's target: as a key it is the server's {path}.
  virtual bool is_target(std::size_t /*slot*/) const { return false; }

  /// The key template if the user gives none.
  virtual std::string_view default_key() const = 0;

  /// Parses one line, without its line end. Unless the result is kRecord, `reason` says in a few
  /// words what is wrong, safe for a terminal. Never throws.
  virtual Reading read(std::string_view line, Record& record, std::string& reason) = 0;
};

/// A reader for Apache's and nginx's logs; `format` is kCommon or kCombined. If the ident is "-", a
/// virtual host may precede the client's address: a name, with or without a port (but not
/// "unknown"), or an address with a port below 10000, which is assumed to be a server's. The ip of
/// a list of forwarded addresses is the first of them. A common reader ignores text after the
/// bytes, a combined one text after the user agent. Field texts are as written, with their escapes.
std::unique_ptr<LineReader> make_log_reader(Format format);

/// A reader for CSV (RFC 4180) with this header, which must have a column `time` (decimal seconds
/// since the epoch); `cost` is optional. If it has none, null, and `reason` says so.
std::unique_ptr<LineReader> make_csv_reader(std::string_view header, std::string& reason);

/// A reader for one JSON object per line, with `time` (decimal seconds since the epoch, parsed
/// exactly) or `time_ns`; `cost` is optional.
std::unique_ptr<LineReader> make_json_lines_reader();

/// The reader for a file, chosen by its first line that fits a format.
struct Recognised {
  /// Null if the line fits no format; then `reason` says so.
  std::unique_ptr<LineReader> reader;
  /// The line is a CSV header and not a record.
  bool is_header = false;
};

/// Tries `line` against `wanted`, or with kAuto against every format.
Recognised recognise(std::string_view line, Format wanted, std::string& reason);

}  // namespace sluice::replay

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "replay/byte_source.h"

namespace sluice::replay {

struct Line {
  /// Without its line end (LF or CRLF). Valid until the source is asked for anything else.
  std::string_view text;
  /// The first line of the input is 1.
  std::uint64_t number = 0;
  /// The line is longer than kMaxLineBytes; it was passed over, and text is empty.
  bool is_too_long = false;
};

/// Cuts a file, a pipe or a terminal into lines, unpacking gzip as ByteSource does. Reads in large
/// blocks and holds at most one line and a block. A byte order mark before the first line is
/// dropped. Not thread-safe.
class LineSource {
 public:
  /// Takes the open descriptor over, and closes it at the end.
  explicit LineSource(int descriptor);

  /// The next line; false at the end of what can be read. A last line without a line end counts.
  bool next(Line& line);

  /// Appends the following line, with the line end between, to the line that next() gave; false if
  /// there is none or the whole would pass kMaxLineBytes. Unless accept() is called, next() will
  /// still give that following line.
  bool extend(Line& line);

  /// Uses up what extend() appended.
  void accept();

  /// Empty, or why reading ended before the end of the input, in a few words.
  const std::string& error() const { return bytes_.error(); }

  /// How far into the input (as stored, so compressed if it is) reading has come.
  std::uint64_t bytes_read() const { return bytes_.bytes_read(); }

 private:
  std::size_t line_end(std::size_t from);
  std::size_t skip_line();
  bool fill();
  std::string_view line_text(std::size_t size) const;

  ByteSource bytes_;
  std::unique_ptr<char[]> buffer_;
  /// Offsets in buffer_: the line given last, the line after it, the end of what was read.
  std::size_t line_ = 0;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  /// As next_, and how many lines it is ahead of it, counting what extend() appended.
  std::size_t ahead_ = 0;
  std::uint64_t lines_ahead_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sluice::replay

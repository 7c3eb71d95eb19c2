#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "replay/byte_source.h"

namespace sluice::replay {

struct Line {
  /// Without its line end (LF or CRLF). Valid until the next call of the source.
  std::string_view text;
  /// The first line of the input is 1.
  std::uint64_t number = 0;
  /// The line is longer than kMaxLineBytes; it was skipped, and text is empty.
  bool is_too_long = false;
};

/// Reads the lines of a file, a pipe or a terminal, and decompresses gzip as ByteSource does. Reads
/// large blocks; holds at most one line and one block. Drops a byte order mark before the first
/// line. Not thread-safe.
class LineSource {
 public:
  /// Takes ownership of the open descriptor.
  explicit LineSource(int descriptor);

  /// Reads the next line. Returns false at the end; then error() may be set. A last line without a
  /// line end counts, unless reading ended before the end of the input, which may have cut it.
  bool next(Line& line);

  /// Appends the following line, with the line end between, to the line from next(). Returns false
  /// if there is none, or if the result would be longer than kMaxLineBytes. Unless accept() is
  /// called, next() still returns that following line.
  bool extend(Line& line);

  /// Consumes the lines that extend() has appended.
  void accept();

  /// A few words that say why reading ended before the end of the input; else empty.
  const std::string& error() const { return bytes_.error(); }

  /// The number of bytes read from the input, before decompression.
  std::uint64_t bytes_read() const { return bytes_.bytes_read(); }

 private:
  std::size_t line_end(std::size_t from);
  std::size_t skip_line();
  bool fill();
  bool is_no_line(std::size_t size) const;
  std::string_view line_text(std::size_t size) const;

  ByteSource bytes_;
  std::unique_ptr<char[]> buffer_;
  /// Offsets in buffer_: of the last line, of the line after it, of the end of the loaded bytes.
  std::size_t line_ = 0;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  /// As next_, but after the lines that extend() has appended, and the number of these lines.
  std::size_t ahead_ = 0;
  std::uint64_t lines_ahead_ = 0;
  std::uint64_t number_ = 0;
};

}  // namespace sluice::replay

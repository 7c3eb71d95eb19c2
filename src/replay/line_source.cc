#include "replay/line_source.h"

#include <algorithm>
#include <cstring>

#include "replay/record.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kBlockBytes = 256 * 1024;
constexpr std::size_t kHeldBytes = kMaxLineBytes + kBlockBytes;
constexpr std::size_t kTooLong = static_cast<std::size_t>(-1);

}  // namespace

LineSource::LineSource(int descriptor) : bytes_(descriptor), buffer_(new char[kHeldBytes]) {}

bool LineSource::next(Line& line) {
  line_ = next_;
  std::size_t size = line_end(0);
  line.number = ++number_;
  line.is_too_long = size == kTooLong;
  if (line.is_too_long) size = skip_line();
  const bool has_end = line_ + size < end_;
  if (!has_end && !line.is_too_long && is_no_line(size)) return false;
  line.text = line.is_too_long ? std::string_view() : line_text(size);
  next_ = ahead_ = line_ + size + (has_end ? 1 : 0);
  lines_ahead_ = 0;
  if (number_ == 1 && line.text.starts_with("\xEF\xBB\xBF")) line.text.remove_prefix(3);
  return true;
}

bool LineSource::extend(Line& line) {
  const std::size_t from = ahead_ - line_;
  const std::size_t size = line_end(from);
  if (size == kTooLong) return false;
  const bool has_end = line_ + size < end_;
  if (!has_end && is_no_line(size - from)) return false;
  line.text = line_text(size);
  ahead_ = line_ + size + (has_end ? 1 : 0);
  ++lines_ahead_;
  return true;
}

void LineSource::accept() {
  next_ = ahead_;
  number_ += lines_ahead_;
  lines_ahead_ = 0;
}

/// The offset from line_ of the first line end at or after `from`, or of the input's end; kTooLong
/// if that is too far.
std::size_t LineSource::line_end(std::size_t from) {
  for (;;) {
    const char* start = buffer_.get() + line_;
    const auto* found =
        static_cast<const char*>(std::memchr(start + from, '\n', end_ - line_ - from));
    const std::size_t size =
        found == nullptr ? end_ - line_ : static_cast<std::size_t>(found - start);
    if (size > kMaxLineBytes) return kTooLong;
    if (found != nullptr || !fill()) return size;
    from = size;
  }
}

/// Skips a line that is too long. Returns as line_end() for the rest of it.
std::size_t LineSource::skip_line() {
  for (;;) {
    const char* start = buffer_.get() + line_;
    const void* found = std::memchr(start, '\n', end_ - line_);
    if (found != nullptr) return static_cast<std::size_t>(static_cast<const char*>(found) - start);
    line_ = end_;
    if (!fill()) return 0;
  }
}

/// Reads another block after the bytes that are kept (from line_ on). Returns false at the end.
bool LineSource::fill() {
  // The offsets move by as much as the kept bytes do.
  std::memmove(buffer_.get(), buffer_.get() + line_, end_ - line_);
  end_ -= line_;
  next_ -= std::min(next_, line_);
  ahead_ -= std::min(ahead_, line_);
  line_ = 0;
  const std::size_t room = std::min(kBlockBytes, kHeldBytes - end_);
  const std::size_t got = bytes_.read(buffer_.get() + end_, room);
  end_ += got;
  return got > 0;
}

/// Whether this many bytes without a line end are no line: there are none, or reading ended too
/// early, so that the rest of the line is missing.
bool LineSource::is_no_line(std::size_t size) const {
  return size == 0 || !error().empty();
}

std::string_view LineSource::line_text(std::size_t size) const {
  std::string_view text(buffer_.get() + line_, size);
  if (text.ends_with('\r')) text.remove_suffix(1);
  return text;
}

}  // namespace sluice::replay

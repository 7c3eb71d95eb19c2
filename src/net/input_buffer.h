#pragma once

#include <cassert>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>

#include "net/stream_handler.h"

namespace sluice {

/// The most that an idle connection keeps for its input, and for its output.
inline constexpr std::size_t kIdleBufferBytes = 16 * 1024;

/// Bytes that were read from a connection and not consumed yet, at most kMaxInputBytes.
class InputBuffer {
 public:
  std::string_view unread() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool is_full() const { return end_ - begin_ == kMaxInputBytes; }
  void consume(std::size_t bytes) {
    assert(bytes <= end_ - begin_);
    begin_ += bytes;
  }

  /// Where the next read may write, followed by commit(). Empty where the buffer is full. A buffer
  /// that the last read has filled grows; a large one that is empty becomes small again.
  std::span<char> make_room();
  void commit(std::size_t bytes) { end_ += bytes; }

 private:
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace sluice

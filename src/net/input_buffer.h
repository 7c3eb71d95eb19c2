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

/// Bytes that were read from a connection and not consumed yet.
class InputBuffer {
 public:
  struct Bounds {
    std::size_t first;  ///< How large the buffer is at first.
    std::size_t idle;   ///< A buffer that is larger becomes as at first again when it is empty.
    std::size_t most;   ///< The most bytes that it holds; at least `first`.
  };
  /// Those of a connection that the server has accepted.
  static constexpr Bounds kAccepted{4 * 1024, kIdleBufferBytes, kMaxInputBytes};

  explicit InputBuffer(const Bounds& bounds = kAccepted) : bounds_(bounds) {}

  std::string_view unread() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool is_full() const { return end_ - begin_ == bounds_.most; }
  void consume(std::size_t bytes) {
    assert(bytes <= end_ - begin_);
    begin_ += bytes;
  }

  /// Where the next read may write, followed by commit(). Empty if the buffer is full. A buffer
  /// that the last read has filled grows.
  std::span<char> make_room();
  void commit(std::size_t bytes) { end_ += bytes; }

 private:
  Bounds bounds_;
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace sluice

#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/stream_handler.h"

namespace sluice {

/// The most that an idle connection keeps for its input, and for its output.
inline constexpr std::size_t kIdleBufferBytes = 16 * 1024;

/// Empties the output. What one long reply needed is not kept for as long as the connection is
/// open.
inline void clear_output(std::string& output) {
  output.clear();
  if (output.capacity() > kIdleBufferBytes) std::string().swap(output);
}

/// Bytes that were read from a connection and not consumed yet.
class InputBuffer {
 public:
  struct Bounds {
    std::size_t first;  ///< How large the buffer is at first.
    std::size_t idle;   ///< A read makes it larger only if more than half of this is kept.
    std::size_t most;   ///< The most bytes that it holds; at least `first`.
  };
  /// Those of a connection that the server has accepted.
  static constexpr Bounds kAccepted{4 * 1024, kIdleBufferBytes, kMaxInputBytes};

  explicit InputBuffer(const Bounds& bounds = kAccepted) : bounds_(bounds) {}

  std::string_view unread() const { return {bytes_.get() + begin_, end_ - begin_}; }
  bool is_full() const { return end_ - begin_ == bounds_.most; }
  std::size_t capacity() const { return capacity_; }
  void consume(std::size_t bytes) {
    assert(bytes <= end_ - begin_);
    begin_ += bytes;
  }

  /// Where the next read may write, followed by commit(). Empty if the buffer is full. A buffer
  /// that the last read has filled grows: up to Bounds::idle always, since more is likely to come;
  /// further only if much is kept, so that many short requests do not need what a long one does.
  std::span<char> make_room() {
    const std::string_view kept = unread();
    std::size_t capacity = capacity_;
    if (end_ == capacity_) {
      capacity = std::clamp(2 * std::max(kept.size(), std::min(capacity_, bounds_.idle / 2)),
                            bounds_.first, bounds_.most);
    } else if (capacity_ > bounds_.idle && kept.size() <= bounds_.idle / 2) {
      capacity = kept.empty() ? bounds_.first : bounds_.idle;
    }
    if (capacity != capacity_) {
      auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
      std::copy(kept.begin(), kept.end(), bytes.get());
      bytes_ = std::move(bytes);
      capacity_ = capacity;
    } else if (begin_ != 0) {
      std::memmove(bytes_.get(), kept.data(), kept.size());
    }
    begin_ = 0;
    end_ = kept.size();
    return {bytes_.get() + end_, capacity_ - end_};
  }
  void commit(std::size_t bytes) { end_ += bytes; }

 private:
  Bounds bounds_;
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace sluice

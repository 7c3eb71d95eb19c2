#pragma once

#include <atomic>
#include <cstddef>

#include "net/input_buffer.h"

namespace sluice {

/// What the connections of a server hold together: input that is not answered yet, and output that
/// is not sent yet. Thread-safe.
class ClientMemory {
 public:
  /// Up to so many bytes of a connection are not counted: its buffers for input, for output and for
  /// TLS while its requests have no more than 8 KiB, and some of the handler's.
  static constexpr std::size_t kUncountedBytes = 3 * kIdleBufferBytes + 8 * 1024;

  explicit ClientMemory(std::size_t most_bytes) : most_(most_bytes) {}

  /// Applies from the next change on.
  void set_most(std::size_t bytes) { most_ = bytes; }

  /// A connection for which `counted` bytes are counted holds `bytes` now. Returns whether it may:
  /// one that has grown may hold a quarter of what is left. So those that hold most are refused
  /// first, and leave room for the others.
  bool update(std::size_t& counted, std::size_t bytes) {
    const std::size_t before = counted;
    counted = bytes > kUncountedBytes ? bytes : 0;
    if (counted == before) return true;
    const std::size_t held = held_ += counted - before;
    const std::size_t most = most_;
    return counted < before || (held <= most && counted <= (most - held) / 4);
  }

 private:
  std::atomic<std::size_t> held_ = 0;
  std::atomic<std::size_t> most_;
};

}  // namespace sluice

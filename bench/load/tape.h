#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/options.h"

namespace sluice::bench {

/// Requests rendered in advance, one after the other, so that several can be sent by one write
/// without copying. Where keys or limits are new, their numbers are written into a request each
/// time it is taken. Not thread-safe.
class Tape {
 public:
  struct Slice {
    std::string_view bytes;
    std::size_t requests = 0;
  };

  explicit Tape(const LoadOptions& options);

  /// The next `most` requests, or fewer at the end of the tape, after which it starts again. The
  /// bytes live as long as the tape, and stay the same until all other requests have been taken.
  /// REQUIRES: most >= 1.
  Slice next(std::size_t most);

  std::size_t size() const { return ends_.size(); }

 private:
  void write_new_number(std::uint64_t at);

  std::string bytes_;
  std::vector<std::uint64_t> ends_;
  /// For each request the place in bytes_ of a number that was never sent before, or 0; empty if
  /// no request has one.
  std::vector<std::uint64_t> new_at_;
  std::int64_t next_new_ = kFirstNew;
  std::size_t cursor_ = 0;
};

}  // namespace sluice::bench

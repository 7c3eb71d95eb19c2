#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "load/options.h"

namespace sluice::bench {

/// Requests rendered in advance, one after the other, so that several can be sent by one write
/// without copying. Not thread-safe.
class Tape {
 public:
  struct Slice {
    std::string_view bytes;
    std::size_t requests = 0;
  };

  explicit Tape(const LoadOptions& options);

  /// The next `most` requests, or fewer at the end of the tape, after which it starts again. The
  /// bytes live as long as the tape. REQUIRES: most >= 1.
  Slice next(std::size_t most);

  std::size_t size() const { return ends_.size(); }

 private:
  std::string bytes_;
  std::vector<std::uint64_t> ends_;
  std::size_t cursor_ = 0;
};

}  // namespace sluice::bench

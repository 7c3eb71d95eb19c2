#pragma once

#include <array>
#include <boost/json/monotonic_resource.hpp>
#include <boost/json/storage_ptr.hpp>
#include <cstddef>
#include <optional>
#include <string_view>

namespace sluice::http {

/// Memory for what the requests of one batch consist of, their keys above all: valid until the
/// batch has been asked. Then all of it is released at once. Not thread-safe.
class Arena {
 public:
  Arena() { release(); }

  /// The resource is made anew, since its own release() keeps the size of the next block, which
  /// doubles with each block: after some twenty large batches no system has that much memory.
  void release() { resource_.emplace(first_.data(), first_.size()); }

  char* allocate(std::size_t bytes) {
    return static_cast<char*>(resource_->allocate(bytes == 0 ? 1 : bytes, 1));
  }
  std::string_view copy(std::string_view text) {
    char* const bytes = allocate(text.size());
    text.copy(bytes, text.size());
    return {bytes, text.size()};
  }
  boost::json::storage_ptr storage() { return &*resource_; }

 private:
  std::array<unsigned char, 16 * 1024> first_;
  std::optional<boost::json::monotonic_resource> resource_;
};

}  // namespace sluice::http

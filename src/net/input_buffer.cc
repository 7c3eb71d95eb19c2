#include "net/input_buffer.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace sluice {

std::span<char> InputBuffer::make_room() {
  const std::string_view kept = unread();
  std::size_t capacity = capacity_;
  if (end_ == capacity_) {
    capacity = std::clamp(2 * capacity_, bounds_.first, bounds_.most);
  } else if (kept.empty() && capacity_ > bounds_.idle) {
    capacity = bounds_.first;
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

}  // namespace sluice

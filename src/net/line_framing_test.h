#pragma once

#include <cstddef>
#include <string_view>

#include "net/command.h"

namespace sluice {

/// A reply is a line; one that begins with '!' is none.
class LineFraming final : public Framing {
 public:
  std::size_t reply_bytes(std::string_view input) override {
    if (input.front() == '!') return kMalformed;
    const std::size_t end = input.find('\n', seen_);
    seen_ = end == std::string_view::npos ? input.size() : 0;
    return end == std::string_view::npos ? 0 : end + 1;
  }

 private:
  std::size_t seen_ = 0;
};

}  // namespace sluice

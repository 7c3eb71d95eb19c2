#pragma once

#include <string>
#include <vector>

#include "core/instant.h"

namespace sluice::resp {

// For this room's tests.

inline constexpr Instant kNow = 1'700'000'000'000'000'000;

/// A command as clients send it.
inline std::string array(const std::vector<std::string>& arguments) {
  std::string bytes = "*" + std::to_string(arguments.size()) + "\r\n";
  for (const auto& text : arguments) {
    bytes += "$" + std::to_string(text.size()) + "\r\n" + text + "\r\n";
  }
  return bytes;
}

}  // namespace sluice::resp

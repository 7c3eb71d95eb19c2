#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace sluice {

/// Whether the path leads to a pipe, a device or a socket: a thread that reads it may wait for
/// ever.
inline bool is_special_file(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::is_other(std::filesystem::status(path, ignored));
}

}  // namespace sluice

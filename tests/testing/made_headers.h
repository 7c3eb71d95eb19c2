#pragma once

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <span>
#include <utility>
#include <vector>

#include "sluice/http_headers.h"

namespace sluice {

/// http_headers() for tests. If the environment variable MADE_HEADERS names a file, appends the
/// headers to it, one "Name: value" per line and an empty line at the end. In tests/http_headers
/// another program checks that they are well formed.
inline std::vector<HttpHeader> made_headers(std::span<const std::pair<Limit, Decision>> answers,
                                            HeaderStyle style,
                                            std::chrono::system_clock::time_point now = {}) {
  std::vector<HttpHeader> headers = http_headers(answers, style, now);
  if (const char* path = std::getenv("MADE_HEADERS")) {
    std::ofstream file(path, std::ios::app);
    for (const auto& [name, value] : headers) file << name << ": " << value << '\n';
    file << '\n';
  }
  return headers;
}

}  // namespace sluice

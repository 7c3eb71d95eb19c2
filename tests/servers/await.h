#pragma once

#include <chrono>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "servers/socket.h"

namespace sluice::servers {

/// Calls `is_so` every few milliseconds until it returns true. If that takes longer than kPatience,
/// throws std::runtime_error that names `what`.
inline void await(const std::string& what, const std::function<bool()>& is_so) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("awaited in vain: " + what);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

}  // namespace sluice::servers

#include "servers/await.h"

#include <chrono>
#include <stdexcept>
#include <thread>

#include "servers/socket.h"

namespace sluice::servers {

void await(const std::string& what, const std::function<bool()>& is_so) {
  constexpr std::chrono::milliseconds kPause{5};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_so()) {
    if (std::chrono::steady_clock::now() > deadline) {
      throw std::runtime_error("awaited in vain: " + what);
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace sluice::servers

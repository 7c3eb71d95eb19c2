#include "waiting/fork.h"

#include <pthread.h>

namespace sluice {
namespace {

constinit std::atomic<std::uint64_t> generation{0};

void begin_as_a_child() {
  generation.fetch_add(1, std::memory_order_relaxed);
}

// Before main(), so that no fork() is missed.
[[maybe_unused]] const bool is_told = ::pthread_atfork(nullptr, nullptr, begin_as_a_child) == 0;

}  // namespace

std::uint64_t fork_generation() {
  return generation.load(std::memory_order_relaxed);
}

}  // namespace sluice

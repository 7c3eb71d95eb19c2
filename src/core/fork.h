#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace sluice {

inline constinit std::atomic<std::uint64_t> fork_count{0};
// Registered before main(), so that no fork() is missed.
inline const bool counts_forks = ::pthread_atfork(nullptr, nullptr, [] { ++fork_count; }) == 0;

/// A number that differs between a child of fork() and its parent. The child has none of the
/// parent's threads: it must not use objects on which they hold locks or work. Never blocks.
inline std::uint64_t fork_generation() {
  return fork_count.load(std::memory_order_relaxed);
}

/// One T for each process: a child of fork() makes a new one. It is never destroyed, because static
/// objects that are destroyed at exit may still use it. Thread-safe.
template <class T>
class PerProcess {
 public:
  constexpr PerProcess() = default;

  T& get() {
    Node* found = newest_.load(std::memory_order_acquire);
    while (found == nullptr || found->generation != fork_generation()) {
      auto made = std::make_unique<Node>(found);
      if (newest_.compare_exchange_strong(found, made.get())) found = made.release();
    }
    return found->value;
  }

 private:
  struct Node {
    explicit Node(const Node* of_parent) : parent(of_parent) {}

    const Node* const parent;  // Keeps it in reach: else it would look like lost memory.
    const std::uint64_t generation = fork_generation();
    T value;
  };

  std::atomic<Node*> newest_{nullptr};
};

}  // namespace sluice

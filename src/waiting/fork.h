#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace sluice {

inline constinit std::atomic<std::uint64_t> fork_count{0};
// Registered before main(), so that no fork() is missed.
inline const bool counts_forks = ::pthread_atfork(nullptr, nullptr, [] { ++fork_count; }) == 0;

/// Another number in a child of fork() than in its parent: what threads of the parent have locked
/// or begun, the child must not touch. Never blocks.
inline std::uint64_t fork_generation() {
  return fork_count.load(std::memory_order_relaxed);
}

/// A T of which each process has its own: a child of fork() begins with a new one. Never destroyed,
/// as objects of static storage that are destroyed later may use it. Thread-safe.
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

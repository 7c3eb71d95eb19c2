#pragma once

#include <array>
#include <cstddef>
#include <memory>

#include "limiter/local_states.h"

namespace sluice {

/// What the local states are to follow of what the store answered: gathered, since they follow many
/// requests together for a fraction of what each would cost alone.
///
/// Requests that were sent within a millisecond are followed at the instant of the first of them.
/// What there is no memory for is not followed.
class Followers {
 public:
  static constexpr std::size_t kMost = 16;

  explicit Followers(LocalStates* local) : local_(local) {}
  Followers(const Followers&) = delete;
  Followers& operator=(const Followers&) = delete;

  /// The store's answer to a request that was sent at `sent`; `space` is the local states'. What
  /// the request refers to outlives the next flush(). Does nothing where there are no local states.
  void add(const Request& request, const Decision& answer, Instant sent, Space* space);

  /// Has them follow all that was added.
  void flush() noexcept;

 private:
  template <class T>
  struct Room {
    alignas(T) std::array<std::byte, kMost * sizeof(T)> bytes;
    T* at(std::size_t i) { return reinterpret_cast<T*>(bytes.data()) + i; }
  };

  LocalStates* const local_;
  std::size_t count_ = 0;
  Instant now_ = 0;
  Room<Request> requests_;
  Room<Decision> decisions_;
};

}  // namespace sluice

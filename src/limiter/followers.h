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

  struct Answered {
    const Request& request;
    KeyHash key;  ///< Under the local states' secret.
    const Decision& answer;
    Instant sent = 0;
    Space* space = nullptr;  ///< The local states'.
  };
  /// Whether there is room for another one, and there are local states.
  bool may_expect() const { return local_ != nullptr && expected_count_ < kMost; }
  /// This may be added soon: all that is expected is asked for together, so that the waits for
  /// memory, and for the addresses of its pages, are one. REQUIRES: may_expect(); the space is the
  /// local states', the key hashed under their secret.
  void expect(const Space& space, const KeyHash& key);
  /// Asks the processor for what is expected.
  void fetch();

  /// What the request refers to outlives the next flush(). Does nothing where there are no local
  /// states.
  void add(const Answered& answered);

  /// Has them follow all that was added.
  void flush() noexcept;

 private:
  template <class T>
  struct Room {
    alignas(T) std::array<std::byte, kMost * sizeof(T)> bytes;
    T* at(std::size_t i) { return reinterpret_cast<T*>(bytes.data()) + i; }
  };

  LocalStates* const local_;
  Room<memory::Place> expected_;
  std::size_t expected_count_ = 0;
  std::size_t count_ = 0;
  Instant now_ = 0;
  Room<memory::Place> places_;
  Room<Request> requests_;
};

}  // namespace sluice

#pragma once

#include <atomic>
#include <cstdint>
#include <span>

#include "core/store.h"

namespace sluice {

/// An inquiry whose asker waits for the answer: made, and waited for, on one thread.
///
/// Askers who are told of their answers together are woken together, most often by one system call.
/// Were each woken alone, the first would take the processor from the thread that wakes them, and
/// so would the next: two changes of thread an answer instead of one.
class AwaitedInquiry final : public Inquiry {
 public:
  /// Where there are more threads than places to sleep at, some have the same one: the other is
  /// woken as well, and sleeps on.
  static constexpr std::uint32_t kPlaces = 2048;

  AwaitedInquiry();

  void answered() noexcept override;

  /// Returns once answered() has been called. REQUIRES: called once.
  void wait();

 private:
  class Waker;
  enum class State : std::uint8_t { kAsked, kAwaited, kAnswered };

  std::atomic<State> state_ = State::kAsked;
  const std::uint32_t thread_;  // The number of the asker's.
};

}  // namespace sluice

#include "core/waiting.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstddef>

namespace sluice {
namespace {

// What the threads of one group sleep on, each for a bit of its own: one system call wakes those
// whose bits it names. See FUTEX_WAIT_BITSET in futex(2).
struct alignas(64) Group {
  std::atomic<std::uint32_t> calls = 0;
};

constexpr std::uint32_t kThreadsOfAGroup = 32;
constinit std::array<Group, AwaitedInquiry::kPlaces / kThreadsOfAGroup> groups;

// Nothing is said of how it went: whoever sleeps looks by itself.
void futex(Group& group, int operation, std::uint32_t value, std::uint32_t bits) {
  ::syscall(SYS_futex, &group.calls, operation | FUTEX_PRIVATE_FLAG, value, nullptr, nullptr, bits);
}

Group& group_of(std::uint32_t thread) {
  return groups[thread / kThreadsOfAGroup % groups.size()];
}

std::uint32_t bit_of(std::uint32_t thread) {
  return std::uint32_t{1} << thread % kThreadsOfAGroup;
}

std::uint32_t number_of_this_thread() {
  static constinit std::atomic<std::uint32_t> threads = 0;
  thread_local const std::uint32_t number = threads.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// Threads that sleep, to be woken together.
class Sleepers {
 public:
  void add(std::uint32_t thread) {
    Group& group = group_of(thread);
    std::size_t i = 0;
    while (i < count_ && calls_[i].group != &group) ++i;
    if (i == count_) calls_[count_++] = {.group = &group};
    calls_[i].bits |= bit_of(thread);
  }

  void wake() {
    for (std::size_t i = 0; i < count_; ++i) {
      calls_[i].group->calls.fetch_add(1, std::memory_order_release);
      futex(*calls_[i].group, FUTEX_WAKE_BITSET, INT_MAX, calls_[i].bits);
    }
  }

 private:
  struct Call {
    Group* group = nullptr;
    std::uint32_t bits = 0;
  };

  std::array<Call, InquiryListener::kMost> calls_{};
  std::size_t count_ = 0;
};

}  // namespace

class AwaitedInquiry::Waker final : public InquiryListener {
 public:
  void answered(std::span<Inquiry* const> inquiries) noexcept override {
    Sleepers sleepers;
    for (Inquiry* inquiry : inquiries) {
      auto& awaited = static_cast<AwaitedInquiry&>(*inquiry);
      const std::uint32_t thread = awaited.thread_;
      // From here on it may be gone.
      const State before = awaited.state_.exchange(State::kAnswered, std::memory_order_acq_rel);
      if (before == State::kAwaited) sleepers.add(thread);
    }
    sleepers.wake();
  }

  static constinit Waker instance;
};

constinit AwaitedInquiry::Waker AwaitedInquiry::Waker::instance;

AwaitedInquiry::AwaitedInquiry() : thread_(number_of_this_thread()) {
  listener = &Waker::instance;
}

void AwaitedInquiry::answered() noexcept {
  Inquiry* const own = this;
  Waker::instance.answered({&own, 1});
}

// Who wakes sets the state, then counts the call, then makes it. So a call that is missed here has
// changed the count, and nobody falls asleep over it.
void AwaitedInquiry::wait() {
  Group& group = group_of(thread_);
  std::uint32_t calls = group.calls.load(std::memory_order_acquire);
  State asked = State::kAsked;
  if (!state_.compare_exchange_strong(asked, State::kAwaited, std::memory_order_acq_rel)) return;
  do {
    futex(group, FUTEX_WAIT_BITSET, calls, bit_of(thread_));
    calls = group.calls.load(std::memory_order_acquire);
  } while (state_.load(std::memory_order_acquire) != State::kAnswered);
}

}  // namespace sluice

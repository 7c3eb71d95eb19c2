#pragma once

#include <semaphore.h>

#include <cerrno>

#include "core/store.h"

namespace sluice {

/// An inquiry whose asker waits for the answer.
class AwaitedInquiry final : public Inquiry {
 public:
  AwaitedInquiry() { ::sem_init(&ready_, 0, 0); }
  ~AwaitedInquiry() override { ::sem_destroy(&ready_); }

  void answered() noexcept override { ::sem_post(&ready_); }

  /// Returns once answered() has been called. REQUIRES: called once.
  void wait() {
    while (::sem_wait(&ready_) != 0 && errno == EINTR) {
    }
  }

 private:
  // Not std::binary_semaphore: the standard library's yields the processor several times before it
  // sleeps, and many threads that wait for one answer then switch among each other in vain.
  sem_t ready_;
};

}  // namespace sluice

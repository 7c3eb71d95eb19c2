#pragma once

#include <semaphore>

#include "core/store.h"

namespace sluice {

/// An inquiry whose asker waits for the answer.
class AwaitedInquiry final : public Inquiry {
 public:
  void answered() noexcept override { ready_.release(); }

  /// Returns once answered() has been called. REQUIRES: called once.
  void wait() { ready_.acquire(); }

 private:
  std::binary_semaphore ready_{0};
};

}  // namespace sluice

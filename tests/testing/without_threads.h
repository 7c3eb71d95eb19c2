#pragma once

#include <pthread.h>

#include <cstddef>

namespace sluice {

/// While it exists, the process cannot start a thread: there is no room for so large a stack.
class WithoutThreads {
 public:
  WithoutThreads() {
    ::pthread_getattr_default_np(&before_);
    pthread_attr_t changed;
    ::pthread_attr_init(&changed);
    ::pthread_attr_setstacksize(&changed, std::size_t{1} << 47);
    ::pthread_setattr_default_np(&changed);
    ::pthread_attr_destroy(&changed);
  }
  ~WithoutThreads() {
    ::pthread_setattr_default_np(&before_);
    ::pthread_attr_destroy(&before_);
  }
  WithoutThreads(const WithoutThreads&) = delete;
  WithoutThreads& operator=(const WithoutThreads&) = delete;

 private:
  pthread_attr_t before_{};
};

}  // namespace sluice

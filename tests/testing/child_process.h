#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

namespace sluice {

/// Runs `is_so` in a child of fork(). Returns the child's exit status: 0 if `is_so` returned true.
/// The child may inherit a lock that another thread holds at that moment, such as one of the
/// address sanitizer's allocator, and waits for it in vain then: after 20 s it is ended, and
/// another one is tried, up to three times.
inline int in_child_process(const std::function<bool()>& is_so) {
  int status = -1;
  for (int tries = 0; tries < 3; ++tries) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(20);
      ::_exit(is_so() ? 0 : 1);
    }
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) break;
  }
  return status;
}

}  // namespace sluice

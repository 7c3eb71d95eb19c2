#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace sluice {

/// Runs `is_so` in a child of fork(). Returns the child's exit status: 0 if `is_so` returned true.
inline int in_child_process(const std::function<bool()>& is_so) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_so() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

}  // namespace sluice

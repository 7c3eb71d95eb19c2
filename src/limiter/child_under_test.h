#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace sluice {

/// What a child of fork() says about itself, as its exit code.
inline int in_a_child(const std::function<bool()>& is_so) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(is_so() ? 0 : 1);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

}  // namespace sluice

#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <functional>
#include <new>

#include "testing/child_process.h"

/// Replaces operator new in a test program. Only one of its files may include this.

namespace sluice {

/// Not with the thread sanitizer, whose runtime has the operators.
inline constexpr bool kReplacesNew = !__has_feature(thread_sanitizer);

/// How many more calls of operator new succeed before one fails; none fails if that is negative.
inline std::atomic<long> news_succeeding{-1};

/// In child processes, lets the first allocation of operator new fail that `act` makes, or the
/// second, or another of the first `tries`. Each child must end by std::terminate() or `is_whole`
/// must return true: nothing is half done. It is told whether act() has returned, or has thrown
/// std::bad_alloc. Returns how many children have ended; all of them, untried, unless kReplacesNew.
inline int end_without_memory(const std::function<void()>& act,
                              const std::function<bool(bool is_done)>& is_whole, int tries = 20) {
  constexpr int kEnded = 3;
  if (!kReplacesNew) return tries;
  int ended = 0;
  for (long after = 0; after < tries; ++after) {
    const int status = in_child_process([&] {
      std::set_terminate([] { std::_Exit(kEnded); });
      bool is_done = true;
      news_succeeding = after;
      try {
        act();
      } catch (const std::bad_alloc&) {
        is_done = false;
      }
      news_succeeding = -1;
      return is_whole(is_done);
    });
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) != 1)
        << "something is half done where allocation " << after << " fails";
    ended += WEXITSTATUS(status) == kEnded ? 1 : 0;
  }
  return ended;
}

}  // namespace sluice

#if !__has_feature(thread_sanitizer)
void* operator new(std::size_t bytes) {
  const bool fails = sluice::news_succeeding >= 0 && sluice::news_succeeding-- == 0;
  // Not malloc(), which a test may replace, too.
  void* const block = fails ? nullptr : std::realloc(nullptr, bytes);
  return block != nullptr ? block : throw std::bad_alloc();
}
void operator delete(void* block) noexcept {
  std::free(block);
}
void operator delete(void* block, std::size_t) noexcept {
  std::free(block);
}
#endif

#pragma once

#include <pthread.h>

namespace sluice {

/// Set on the threads of the library that run callbacks: the timer thread, and the worker thread of
/// each store. One that waited for another would wait for ever.
inline constinit thread_local bool runs_callbacks = false;
// A callback may fork: the child has threads of its own for callbacks.
inline const bool clears_at_fork =
    ::pthread_atfork(nullptr, nullptr, [] { runs_callbacks = false; }) == 0;

}  // namespace sluice

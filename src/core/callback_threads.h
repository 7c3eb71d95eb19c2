#pragma once

namespace sluice {

/// Set on the threads of the library that run callbacks: the timer thread, and the worker thread of
/// each store. One that waited for another would wait for ever.
inline constinit thread_local bool runs_callbacks = false;

}  // namespace sluice

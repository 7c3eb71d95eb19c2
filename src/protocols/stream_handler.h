#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

/// The protocol's part of one connection, which knows no socket: it is given the bytes that came,
/// and appends the bytes to send. Used by one thread at a time.
class StreamHandler {
 public:
  enum class Next : std::uint8_t {
    kNeedMore,  ///< No complete request is left in the input: call again when more has come.
    kMore,      ///< Something was consumed, a complete request may be left: call again, now.
    kLater,     ///< The next reply is not known yet: call again when `wake` was called.
    kClose,     ///< Send the output, then close. The rest of the input is ignored.
  };

  struct Progress {
    /// Bytes at the front of the input that are dealt with.
    std::size_t consumed = 0;
    Next next = Next::kNeedMore;
  };

  virtual ~StreamHandler() = default;

  /// `input` is everything that has come and was not consumed, possibly nothing, and stays valid
  /// during the call. Appends to `output`. One call does a bounded piece of work: where the input
  /// has many complete requests, it answers some and returns kMore. Where it throws a
  /// std::exception, the connection is closed. A handler may be destroyed while it waits, because
  /// its peer has gone.
  virtual Progress on_data(std::string_view input, std::string& output) = 0;
};

/// Called from any thread: on_data() of the handler that said kLater is called soon, on its own
/// thread. Does nothing where the handler does not wait, or its connection has been closed. May be
/// called even after the server was destroyed.
using Wake = std::function<void()>;

/// Makes the handler of a new connection, which `wake` calls again. Called on the worker threads,
/// several at once; `thread` counts from 0.
using MakeHandler = std::function<std::unique_ptr<StreamHandler>(std::size_t thread, Wake wake)>;

/// The most unconsumed input that is kept for a handler. Where it needs more than that, its
/// connection is closed.
inline constexpr std::size_t kMaxInputBytes = 96 * 1024;

}  // namespace sluice

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

/// Has a handler called again that waits for something which is not its peer's input.
class Waker {
 public:
  virtual ~Waker() = default;

  /// From any thread: on_data() of the handler that said kLater is called soon, on its own thread,
  /// once for all calls before that. Does nothing where no handler waits, or its connection has
  /// gone.
  virtual void wake() noexcept = 0;
};

/// One peer's conversation, without the socket: is given the bytes that came, and appends the bytes
/// to send. Used from one thread at a time.
class StreamHandler {
 public:
  enum class Next : std::uint8_t {
    kNeedMore,  ///< Nothing complete is left in the input: call again when more has come.
    kMore,      ///< Something was consumed, something complete may be left: call again, now.
    kLater,     ///< The next of the output is not known yet: call again when the waker says so.
    kClose,     ///< Send the output, then close. The rest of the input is of no interest.
  };

  struct Progress {
    /// How much of the front of the input is done with.
    std::size_t consumed = 0;
    Next next = Next::kNeedMore;
  };

  virtual ~StreamHandler() = default;

  /// `input` is everything that has come and was not consumed, nothing perhaps, and stays valid
  /// during the call. Appends to `output`. One call does a bounded piece of work: where much input
  /// is complete, it answers some and returns kMore. Where it throws a std::exception, the
  /// connection is closed. A handler may be destroyed while it waits, where its peer has gone.
  virtual Progress on_data(std::string_view input, std::string& output) = 0;
};

/// Makes the handler of a new connection, which `waker` calls again. Called on the serving threads,
/// several at once; `thread` counts from 0.
using HandlerFactory =
    std::function<std::unique_ptr<StreamHandler>(std::size_t thread, std::shared_ptr<Waker> waker)>;

/// The most unconsumed input a handler is shown. One that still wants more then is closed.
inline constexpr std::size_t kMaxInputBytes = 96 * 1024;

}  // namespace sluice

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

/// One peer's conversation, without the socket: is given the bytes that came, and appends the bytes
/// to send. Used from one thread at a time.
class StreamHandler {
 public:
  enum class Next : std::uint8_t {
    kNeedMore,  ///< Nothing complete is left in the input: call again when more has come.
    kMore,      ///< Something was consumed, something complete may be left: call again, now.
    kClose,     ///< Send the output, then close. The rest of the input is of no interest.
  };

  struct Progress {
    /// How much of the front of the input is done with.
    std::size_t consumed = 0;
    Next next = Next::kNeedMore;
  };

  virtual ~StreamHandler() = default;

  /// `input` is everything that has come and was not consumed, and stays valid during the call.
  /// Appends to `output`. One call does a bounded piece of work: where much input is complete, it
  /// answers some and returns kMore. Where it throws a std::exception, the connection is closed.
  virtual Progress on_data(std::string_view input, std::string& output) = 0;
};

/// Makes the handler of a new connection. Called on the serving threads, several at once; `thread`
/// counts from 0.
using HandlerFactory = std::function<std::unique_ptr<StreamHandler>(std::size_t thread)>;

/// The most unconsumed input a handler is shown. One that still wants more then is closed.
inline constexpr std::size_t kMaxInputBytes = 96 * 1024;

}  // namespace sluice

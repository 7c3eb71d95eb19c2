#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

/// The protocol's part of one connection, which knows no socket: net/connection gives it the bytes
/// that arrived, and it appends the bytes to send. Used by the connection's serving thread only.
class StreamHandler {
 public:
  enum class Next : std::uint8_t {
    kNeedMore,  ///< No complete request is left in the input: call again when more has arrived.
    kMore,      ///< There is more to do, with or without the rest of the input: call again, now.
    kLater,     ///< The store has not answered yet: call again when `wake` was called.
    kClose,     ///< Send the output, then close. The rest of the input is ignored.
  };

  struct Progress {
    /// The number of bytes at the front of the input that the handler has consumed.
    std::size_t consumed = 0;
    Next next = Next::kNeedMore;
    /// The output ends within a reply, whose rest comes with the next calls.
    bool is_amid_reply = false;
  };

  virtual ~StreamHandler() = default;

  /// `input` is everything that has arrived and was not consumed, possibly nothing; it is valid
  /// during the call. Appends to `output`. One call does a bounded amount of work: if the input has
  /// many complete requests, it answers some of them and returns kMore. If it throws a
  /// std::exception, the connection is closed. A handler may be destroyed while it waits for a
  /// store, because its peer has closed the connection.
  virtual Progress on_data(std::string_view input, std::string& output) = 0;
};

/// A handler that has returned kLater arranges that this is called once it can go on, usually by a
/// store's worker thread. The serving thread of the connection then calls on_data() again.
/// Thread-safe. Does nothing if the handler does not wait, or its connection has been closed. May
/// be called even after the server was destroyed.
using Wake = std::function<void()>;

/// Makes the handler of a new connection; `wake` is that connection's wake function. Called on the
/// serving threads, perhaps on several at once; `thread` is the number of the calling one, from 0.
using MakeHandler = std::function<std::unique_ptr<StreamHandler>(std::size_t thread, Wake wake)>;

/// The most unconsumed input that a connection keeps for its handler. If the handler needs more
/// than that, the connection is closed.
inline constexpr std::size_t kMaxInputBytes = 96 * 1024;

}  // namespace sluice

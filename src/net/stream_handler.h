#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace sluice {

/// The protocol's part of one connection, which knows no socket: an AcceptedConnection gives it the
/// bytes that arrived, and it appends the bytes to send. Used by the connection's serving thread
/// only.
class StreamHandler {
 public:
  enum class Next : std::uint8_t {
    kNeedMore,  ///< No complete request is left in the input: call again when more has arrived.
    kMore,      ///< The handler can do more, even without further input: call again, now.
    kLater,     ///< The store has not answered yet: call again when `wake` was called.
    kClose,     ///< Send the output, then close. The rest of the input is ignored.
  };

  struct Progress {
    /// The number of bytes at the front of the input that the handler has consumed.
    std::size_t consumed = 0;
    Next next = Next::kNeedMore;
    /// With kNeedMore: a part of a request has arrived, in the input or consumed before. The
    /// connection then waits for the rest for StreamTimeouts::request instead of ::idle.
    bool has_part = false;
  };

  virtual ~StreamHandler() = default;

  /// `input` is everything that has arrived and was not consumed, possibly nothing; it is valid
  /// during the call. Appends whole replies to `output`. One call does a bounded amount of work: if
  /// the input has many complete requests, it answers some of them and returns kMore. If it throws
  /// a std::exception, the connection is closed. A handler may be destroyed while it waits for a
  /// store, because its peer has closed the connection.
  virtual Progress on_data(std::string_view input, std::string& output) = 0;

  enum class EndReason : std::uint8_t {
    kLate,      ///< The rest of a request has not arrived in time (StreamTimeouts::request).
    kNoMemory,  ///< The connections of the server together hold too much (ClientMemory).
  };
  /// The connection is closed before it has answered a request of which a part has arrived; at
  /// kNoMemory perhaps after it has answered all, where the handler holds much from before. Appends
  /// an error for the peer to `output`, if the protocol has one.
  virtual void on_end(EndReason /*why*/, std::string& /*output*/) {}

  /// How many bytes the handler holds for its connection between two calls, apart from some KiB.
  virtual std::size_t held_bytes() const { return 0; }

  /// Whether the peer must log in before it is served: it has not yet, has logged out, or has lost
  /// its rights. Called about once a second, and more often while it must.
  virtual bool awaits_login() { return false; }
};

/// How long a connection waits for its peer. A timeout may end up to two seconds late.
struct StreamTimeouts {
  static constexpr std::chrono::milliseconds kNever = std::chrono::milliseconds::max();

  /// For a request, from the last reply or the beginning. After that the connection is closed.
  std::chrono::milliseconds idle = kNever;
  /// For the rest of a request, from its first byte or the last output, even if parts of it arrive.
  /// After that StreamHandler::on_end() is called, and the connection is closed.
  std::chrono::milliseconds request = kNever;
  /// For a peer to log in, from when it must (StreamHandler::awaits_login()), whatever else it
  /// sends. After that the connection is closed.
  std::chrono::milliseconds login = kNever;
};

/// A handler that has returned kLater arranges that this is called once it can go on, usually by a
/// store's worker thread. The serving thread of the connection then calls on_data() again.
/// Thread-safe. Does nothing if the handler does not wait, or its connection has been closed. May
/// be called even after the server was destroyed.
using Wake = std::function<void()>;

/// What a handler may need to know about its accepted connection.
struct AcceptedStream {
  /// The number of the serving thread, from 0.
  std::size_t thread = 0;
  /// The connection's wake function.
  Wake wake = {};
  /// The peer's numeric address without its port; "unix:" if it came over a Unix socket.
  std::string peer = {};
  /// The same with its port: "127.0.0.1:50000" or "[::1]:50000".
  std::string peer_with_port = {};
  /// Whether the listener has a loopback address, which only programs of this machine can reach.
  bool is_loopback = false;
  /// The subject of the client's certificate, which was verified: "CN=gateway", in printable ASCII
  /// as RFC 2253 writes it. Empty if the client has presented none.
  std::string certificate = {};

  /// Whether only programs of this machine can connect in this way.
  bool is_local() const { return is_loopback || peer == "unix:"; }
};

/// Makes the handler of a new connection. Called on the serving threads, perhaps on several at
/// once.
using MakeHandler = std::function<std::unique_ptr<StreamHandler>(AcceptedStream stream)>;

/// The most unconsumed input that a connection keeps for its handler. If the handler needs more
/// than that, the connection is closed.
inline constexpr std::size_t kMaxInputBytes = 96 * 1024;

}  // namespace sluice

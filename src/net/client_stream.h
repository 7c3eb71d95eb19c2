#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "net/unique_fd.h"

namespace sluice {

/// What came of an attempt to move bytes.
struct Transfer {
  enum class Status : std::uint8_t {
    kMoved,      ///< `bytes` were sent or received, at least one.
    kMustRead,   ///< Nothing; try again when the socket can be read.
    kMustWrite,  ///< Nothing; try again when the socket can be written.
    kEnded,      ///< The other side has ended the stream.
    kFailed,     ///< The stream is of no use any more: fault() says why.
  };
  Status status = Status::kMoved;
  std::size_t bytes = 0;
};

/// The client's end of a connected stream, plain or TLS. Never waits, raises no signal. One thread
/// at a time.
class ClientStream {
 public:
  explicit ClientStream(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~ClientStream() = default;
  ClientStream(const ClientStream&) = delete;
  ClientStream& operator=(const ClientStream&) = delete;

  /// Makes the two sides agree, before the first byte is sent. kMoved: they have.
  virtual Transfer shake_hands() = 0;

  /// After kMust..., the same bytes (and more) are to be sent next.
  virtual Transfer send(std::string_view bytes) = 0;
  virtual Transfer receive(std::span<char> room) = 0;

  /// Bytes may wait here, of which the socket knows nothing: receive() is to be called again.
  virtual bool holds_more() const = 0;

  /// The stream is up and nothing has come on it, neither a byte nor its end.
  virtual bool is_quiet() = 0;

  /// Closing is then a reset: what has not reached the other side is not sent any more.
  void reset_on_close();

  int fd() const { return socket_.get(); }
  /// After kFailed: the reason, in the system's words.
  const std::string& fault() const { return fault_; }

 protected:
  UniqueFd socket_;
  std::string fault_;
};

/// A stream without TLS on a connected non-blocking socket.
std::unique_ptr<ClientStream> make_plain_stream(UniqueFd socket);

}  // namespace sluice

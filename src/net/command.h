#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// What is known about a command to which no reply will come.
enum class Loss : std::uint8_t {
  kUnsent,         ///< No byte of it was sent: it can be sent again, to this server or another.
  kMayBeExecuted,  ///< It was sent, at least in part.
};

/// One command to a server, with its reply. The RequestPipeline that it was given to owns it: calls
/// write() once, then either on_reply() or on_lost() once, and destroys it.
class Command {
 public:
  virtual ~Command() = default;

  /// How many replies the server gives to it. Only the last counts: on_reply() is not called for
  /// those before it. A command without a reply is destroyed once it is written.
  virtual std::size_t replies() const { return 1; }

  /// Appends the command to `output`. Called once, just before the bytes are sent, so that a
  /// command that gathers requests can include those that have arrived until then.
  virtual void write(std::string& output) = 0;

  /// `reply` is the whole reply, valid during the call. Replies are matched to commands by their
  /// order only: a command that finds that the reply belongs to another command calls
  /// RequestPipeline::reconnect().
  virtual void on_reply(std::string_view reply) = 0;

  /// No reply will come. `why` is a sentence that names the server.
  virtual void on_lost(Loss loss, std::string_view why) = 0;
};

/// Finds the end of each reply in the received bytes. Each connection has its own.
class Framing {
 public:
  static constexpr std::size_t kMalformed = ~std::size_t{0};

  virtual ~Framing() = default;

  /// The length of the reply at the front of `input`; 0 if more bytes have to arrive first,
  /// kMalformed if the bytes cannot be a reply. After a call that returned 0, the next call's
  /// `input` begins with the same bytes, so that they need not be examined again.
  virtual std::size_t reply_bytes(std::string_view input) = 0;
};

}  // namespace sluice

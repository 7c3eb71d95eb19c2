#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace sluice {

/// What is known of a command that will not be answered.
enum class Loss : std::uint8_t {
  kUnsent,   ///< No byte of it has left: it can be sent again, here or elsewhere.
  kUnknown,  ///< The server may have carried it out.
};

/// What is sent to a server as one, and answered by it.
class Command {
 public:
  virtual ~Command() = default;

  /// How many replies the server gives to it. Only the last counts: on_reply() is not called for
  /// those before it. A command without a reply is forgotten once it is written.
  virtual std::size_t replies() const { return 1; }

  /// Appends the command to `output`. Called once, just before it is sent, so that it can hold
  /// what has come up to then.
  virtual void write(std::string& output) = 0;

  /// The whole reply. That it is the one to this command follows from the order alone; a command
  /// that sees that it is not calls RequestPipeline::reconnect(). Valid during the call.
  virtual void on_reply(std::string_view reply) = 0;

  /// There will be no reply. `why`: a sentence that names the server.
  virtual void on_lost(Loss loss, std::string_view why) = 0;
};

/// Finds where replies end. One for each connection.
class Framing {
 public:
  static constexpr std::size_t kMalformed = ~std::size_t{0};

  virtual ~Framing() = default;

  /// How long the reply at the front of `input` is; 0 where more has to come, kMalformed where it
  /// can be no reply. `input` begins where it began in the call before, unless that one found a
  /// reply, so that what was seen need not be looked at again.
  virtual std::size_t reply_bytes(std::string_view input) = 0;
};

}  // namespace sluice

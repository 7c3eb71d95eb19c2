#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <string>
#include <string_view>

namespace sluice {

/// What can be known of a question that will not be answered.
enum class Loss : std::uint8_t {
  kUnsent,   ///< No byte of it has left: it can be asked again, here or elsewhere.
  kUnknown,  ///< It may have been carried out.
};

/// Why there is no answer, where there is no memory to say more: short enough to need none.
inline constexpr std::string_view kNoMemory = "out of memory";

/// Keeps the reason, or kNoMemory.
inline void keep_reason(std::string& kept, std::string_view why) noexcept {
  try {
    kept = why;
  } catch (const std::exception&) {
    kept = kNoMemory;
  }
}

/// One question to a server, and its answer. Lives until on_reply() or on_lost() is called, one of
/// them once.
class Exchange {
 public:
  virtual ~Exchange() = default;

  /// Appends the question to `output`. Called once, just before it is sent, so that it can hold
  /// what has come up to then.
  virtual void write(std::string& output) = 0;

  /// The reply whose turn it is: the whole of it, and of no other. That it is to this question
  /// follows from the order alone; where the exchange sees that it is not, it gives the connection
  /// up (Pipeline::reconnect). Valid during the call.
  virtual void on_reply(std::string_view reply) = 0;

  /// There will be no reply; `why` is a sentence that names the server.
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

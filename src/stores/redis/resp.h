#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/command.h"

namespace sluice::redis {

/// RESP2, which all versions of Redis use unless HELLO asks for another protocol.

/// A reply as a tree. What RESP calls null is an empty string or array.
struct Reply {
  /// Its first byte: '+' and '$' are texts, '-' is an error, ':' an integer, '*' an array.
  char type = 0;
  /// Of a text or an error; refers to the bytes that were read.
  std::string_view text = {};
  std::int64_t integer = 0;
  std::vector<Reply> elements = {};

  bool is_error() const { return type == '-'; }
};

/// Reads one whole reply; nothing if the bytes are not a reply, or if it is nested more than eight
/// deep, or if it has more than a million elements.
std::optional<Reply> read_reply(std::string_view bytes);

/// Appends the first line of an array of so many elements.
void append_array(std::string& output, std::size_t elements);
/// Appends a bulk string.
void append_text(std::string& output, std::string_view text);
/// A command: an array of bulk strings.
std::string command_of(std::span<const std::string_view> arguments);
inline std::string command_of(std::initializer_list<std::string_view> arguments) {
  return command_of(std::span(arguments.begin(), arguments.size()));
}

/// Finds where a reply ends, looking at each byte once however it arrives.
class RespFraming final : public Framing {
 public:
  std::size_t reply_bytes(std::string_view input) override;

 private:
  std::size_t at_ = 0;       // Up to here all is understood.
  std::size_t missing_ = 1;  // Values that are still to come.
};

/// An error with which a server answered a call. All but kOther come before a script begins.
struct ServerError {
  enum class Kind : std::uint8_t {
    kMoved,        ///< Another node has the slot, for good.
    kAsk,          ///< Another node has this key while the slot moves.
    kTryAgain,     ///< The call's keys are on both nodes while their slot moves.
    kClusterDown,  ///< No node has the slot, or not one whose address the server knows; or most of
                   ///< the cluster cannot be reached.
    kLoading,      ///< The server reads its data, or has lost its primary: nothing works for now.
    kBusy,         ///< A script runs for too long.
    kReadOnly,     ///< It is a replica.
    kNoScript,     ///< It has forgotten the script.
    kNoAuth,       ///< It wants a password that the connection has not given.
    kNoPerm,       ///< The user may not touch one of the keys.
    kOther,        ///< What a script raises, and others: asking again would not help.
  };

  Kind kind = Kind::kOther;
  /// The slot and the server of a redirection (kMoved, kAsk). An empty host: the server that sent
  /// it.
  std::uint16_t slot = 0;
  std::string host = {};
  std::uint16_t port = 0;
  /// Whether the server may have executed a part of the call: an error that a script has raised, or
  /// one without a code of its own, which may belong to another command.
  bool may_be_executed = false;
  /// What was read, without the arguments that it quotes, which are keys and the script.
  std::string_view text = {};
};

/// The text of an error reply: without its type and its line's end.
inline std::string_view error_text(std::string_view reply) {
  return reply.substr(1, reply.size() - 3);
}

/// Whether a server may have this name: with a control character, the system would look up another.
bool is_host(std::string_view name);

/// Reads the text of an error, to which the result refers.
ServerError read_server_error(std::string_view text);

/// The slots over which a cluster spreads its keys.
inline constexpr std::size_t kSlots = 16'384;

/// The slots of a cluster from first to last, and the primary that has them.
struct SlotRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  /// Empty: the node that was asked.
  std::string host;
  std::uint16_t port = 0;
};

/// Reads the reply to CLUSTER SLOTS; nothing if it is not one. Leaves out the ranges of a primary
/// whose address the server does not know.
std::optional<std::vector<SlotRange>> read_cluster_slots(const Reply& reply);

}  // namespace sluice::redis

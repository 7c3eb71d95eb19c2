#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace sluice::redis {

/// An error with which a server answered a call. All but kOther come before a script begins:
/// nothing was carried out.
struct ServerError {
  enum class Kind : std::uint8_t {
    kMoved,        ///< Another node has the slot, for good.
    kAsk,          ///< Another node has this key while the slot moves.
    kTryAgain,     ///< The call's keys are on both nodes while their slot moves.
    kClusterDown,  ///< Nobody has the slot, or most of the cluster cannot be reached.
    kLoading,      ///< The server reads its data, or has lost its primary: nothing works for now.
    kBusy,         ///< A script runs for too long.
    kReadOnly,     ///< It is a replica.
    kNoScript,     ///< It has forgotten the script.
    kNoAuth,       ///< It wants a password that the connection has not given.
    kNoPerm,       ///< The user may not touch one of the keys.
    kOther,        ///< What a script raises, and others: asking again would not help.
  };

  Kind kind = Kind::kOther;
  /// Where to go instead, for kMoved and kAsk. An empty host: the one that said so.
  std::uint16_t slot = 0;
  std::string host = {};
  std::uint16_t port = 0;
};

/// The text of an error reply: without its type and its line's end.
inline std::string_view error_text(std::string_view reply) {
  return reply.substr(1, reply.size() - 3);
}

/// What an error says: its text, without the type byte before it or the line's end after it.
ServerError read_server_error(std::string_view text);

}  // namespace sluice::redis

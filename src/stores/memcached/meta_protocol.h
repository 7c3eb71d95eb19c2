#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "core/arithmetic.h"
#include "core/instant.h"
#include "net/command.h"

namespace sluice::memcached {

/// The meta commands of memcached 1.6.13, as its protocol.txt defines them. Each command has
/// exactly one reply, which carries the command's number back (an error does not). A call is any
/// number of commands that are sent as one; `mn` ends it and has a reply, too. REQUIRES of all: no
/// key is longer than kMaxKeyBytes.

/// The longest key that a server takes.
inline constexpr std::size_t kMaxKeyBytes = 250;

/// Reads a value with its cas token and client flags: Write::written_s.
void append_get(std::string& output, std::string_view key, std::uint32_t number);

/// Claims the key: the server marks its value, if there is one, and gives it a new cas token, so
/// that it refuses writes that are on their way. The first read after that is the claimer's; until
/// the value is written, later ones see MetaReply::is_claimed. The key is not locked: every process
/// that has read the value since may write it.
void append_claim(std::string& output, std::string_view key, std::uint32_t number);

/// A write that replaces a value that was read, or adds one if there was none.
struct Write {
  std::string_view key;
  std::string_view value;
  /// See expiry_s().
  std::int64_t expiry_s = 0;
  /// The token of the value to be replaced; none: only if there is no value.
  std::optional<std::uint64_t> token;
  /// The time of the write by this process's clock, in whole seconds. From it other processes learn
  /// that their clocks are behind.
  std::uint32_t written_s = 0;
};
/// If it is carried out, its reply has the new value's token.
void append_set(std::string& output, const Write& write, std::uint32_t number);

/// Removes the value if it has this token.
void append_delete(std::string& output, std::string_view key, std::uint64_t token,
                   std::uint32_t number);

/// Above this a server reads an expiry as a date: 30 days, in seconds.
inline constexpr std::int64_t kMostRelativeExpiry = 60 * 60 * 24 * 30;
/// The last date that a server can read.
inline constexpr std::int64_t kLastExpiry = 2'147'483'647;

/// The expiry, in seconds as a server reads them, of a value that has to be kept for `lifetime_ns`
/// (at least 0) from `real_now` on, the instant by the real clock. A server's clock has whole
/// seconds and ticks once a second, each time a little late, so that it skips a second now and
/// then: an expiry of 2 may take effect at once. So two more are asked for. An expiry after January
/// 2038 becomes January 2038.
constexpr std::int64_t expiry_s(std::int64_t lifetime_ns, Instant real_now) {
  const std::int64_t seconds = ceil_divide(lifetime_ns, kSecondNs) + 2;
  if (seconds <= kMostRelativeExpiry) return seconds;
  return std::min(real_now / kSecondNs + seconds, kLastExpiry);
}

/// Until when the server keeps a value that is written now with this expiry, unless it is evicted
/// or flushed.
constexpr Instant kept_until(std::int64_t lifetime_ns, Instant real_now) {
  constexpr Instant kLast = kLastExpiry * kSecondNs;
  if (lifetime_ns >= kLast - real_now) return kLast;
  return std::min(kLast, real_now + ceil_divide(lifetime_ns, kSecondNs) * kSecondNs);
}

/// A server's version, the three numbers that come first: {1, 6, 38} of "VERSION 1.6.38_1".
using Version = std::array<unsigned, 3>;
/// The version in the reply to `version`; nothing if that does not begin with three numbers.
std::optional<Version> read_version(std::string_view reply);

enum class Code : std::uint8_t {
  kValue,      ///< VA: here it is.
  kDone,       ///< HD: carried out.
  kMiss,       ///< EN: there is no such value.
  kNotStored,  ///< NS: there is a value already.
  kExists,     ///< EX: the value has another token.
  kNotFound,   ///< NF: the value has gone.
  kError,      ///< The server refuses: nothing was carried out.
};

struct MetaReply {
  Code code = Code::kError;
  /// The value; of any other reply, its line.
  std::string_view text;
  /// 0 if the reply has none.
  std::uint64_t token = 0;
  /// Write::written_s of the value; 0 if the reply has none.
  std::uint32_t written_s = 0;
  /// The value is claimed, and another read has come first: see append_claim().
  bool is_claimed = false;
  /// The command's number, if the reply has one.
  std::optional<std::uint32_t> number;
};

/// Takes the reply to the next command off the front of the reply to a call. Nothing if there is
/// none, or if the bytes cannot be a reply.
std::optional<MetaReply> take_reply(std::string_view& unread);

/// The reply to the end of a call.
inline constexpr std::string_view kEndReply = "MN\r\n";

/// Finds where the reply to a call ends. The first two replies on a connection, to its handshake,
/// are always single lines, because a server that does not know `mn` never ends a call.
class MetaFraming final : public Framing {
 public:
  static constexpr std::size_t kHandshakeReplies = 2;

  std::size_t reply_bytes(std::string_view input) override;

 private:
  std::size_t handshake_left_ = kHandshakeReplies;
  std::size_t at_ = 0;  // All before this has been looked at.
};

}  // namespace sluice::memcached

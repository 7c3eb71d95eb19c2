#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "core/instant.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/pending_request.h"

namespace sluice::memcached {

class Connection;

/// What this process wrote last of a key; while it writes, what it is writing. The server still has
/// it, unless it was evicted or flushed, or another process has written since.
struct LastWrite {
  std::string value;
  /// The token that the server gave to the value; 0 if it is not known.
  std::uint64_t token = 0;
  /// Connection::number() then: a token means nothing on another connection.
  std::uint32_t connection = 0;
  /// Until when the server keeps the value.
  Instant kept_until = 0;
  /// Another process wrote between the last two writes of this one.
  bool contested = false;

  bool is_known() const { return token != 0; }
  /// Whether the server can be expected to have the value. `number`: Connection::number().
  bool is_current(std::uint32_t number, Instant now) const {
    return is_known() && connection == number && now < kept_until && !contested;
  }
};

/// One key: the requests that wait for it, the round they are in, and what this process wrote last.
///
/// There is one round of a key at a time (see CasExecutor). Requests that arrive meanwhile wait,
/// and are judged together in the next round, which writes once for all of them.
struct KeyEntry {
  /// The command that is sent next, or has been sent.
  enum class Step : std::uint8_t { kRead, kWrite, kRemove };

  explicit KeyEntry(Connection& on) : connection(on) {}

  bool is_write() const { return step != Step::kRead; }

  /// Appends the command, numbered.
  void append_command(std::string& output, std::uint32_t number) const {
    if (claims) append_claim(output, *name, number);
    if (step == Step::kRead) append_get(output, *name, number);
    if (step == Step::kWrite)
      append_set(output, {*name, last.value, expiry_s, judged_token, written_s}, number);
    if (step == Step::kRemove) append_delete(output, *name, *judged_token, number);
  }

  /// Whether this can be a server's reply to the command.
  bool can_be_answered(const MetaReply& reply) const {
    const bool is_of_read = reply.code == Code::kValue || reply.code == Code::kMiss;
    return reply.code == Code::kError || is_of_read != is_write();
  }

  /// The item's key on the server. Not null.
  const std::string* name = nullptr;
  Connection& connection;

  /// A round is under way: the entry is with its connection.
  bool under_way = false;
  /// The command was sent, and has no reply.
  bool is_in_flight = false;
  /// Requests that will be judged on the value that is read next.
  RequestList waiting;
  /// Requests with decisions, which are valid if the write is carried out.
  RequestList judged;
  Step step = Step::kRead;
  /// The token of the value on which requests were judged; nothing if there was none.
  std::optional<std::uint64_t> judged_token;
  std::int64_t expiry_s = 0;
  std::uint32_t written_s = 0;
  /// The command is a read, and the key is claimed just before it.
  bool claims = false;
  /// Races lost one after the other, and when the first of them was.
  unsigned losses = 0;
  std::chrono::steady_clock::time_point lost_at;
  LastWrite last;
};

}  // namespace sluice::memcached

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/instant.h"
#include "net/command.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/pending_request.h"

namespace sluice::memcached {

class Connection;

/// One key: the requests that wait for it, the round they are in, and what this process wrote last.
///
/// A round reads the key's value, judges the requests that wait, and writes the value back if that
/// changed it. There is one round of a key at a time. Requests that come meanwhile wait, and are
/// judged together in the next round, which writes for all of them at once.
///
/// Belongs to the worker thread.
struct KeyEntry {
  /// The command that is sent next, or has been sent.
  enum class Step : std::uint8_t { kRead, kWrite, kRemove };

  explicit KeyEntry(Connection& on) : connection(on) {}

  bool changes() const { return step != Step::kRead; }

  /// Whether the server has `value` unless another process has written since. False where that is
  /// to be expected. `number`: Connection::number().
  bool knows_value(std::uint32_t number, Instant now) const {
    return written_token != 0 && written_on == number && now < kept_until && !contested;
  }

  /// Appends the command, numbered.
  void append_command(std::string& output, std::uint32_t number) const {
    if (step == Step::kRead) append_get(output, *name, number);
    if (step == Step::kWrite) append_set(output, {*name, value, expiry_s, token}, number);
    if (step == Step::kRemove) append_delete(output, {*name, token}, number);
  }

  /// Whether a server can answer the command so.
  bool can_be_answered(const MetaReply& reply) const {
    const bool is_of_read = reply.code == Code::kValue || reply.code == Code::kMiss;
    return reply.code == Code::kError || is_of_read != changes();
  }

  /// The server's name of the key. Not null.
  const std::string* name = nullptr;
  Connection& connection;

  /// A round is under way: the entry is with its connection, or pauses after lost races.
  bool under_way = false;
  /// To be judged on the value that is read next.
  RequestList waiting;
  /// Have their decisions, which count if the write is carried out.
  RequestList judged;
  Step step = Step::kRead;
  /// Of the value that is replaced or removed; none where there was no value.
  std::optional<std::uint64_t> token;
  std::int64_t expiry_s = 0;
  /// The round writes over what this process wrote last, without having read it again.
  bool is_unread = false;
  /// Races lost one after the other.
  unsigned losses = 0;

  /// What is written, or, once that was carried out, what this process wrote last.
  std::string value;
  /// The token of what this process wrote last; 0 where that is not known.
  std::uint64_t written_token = 0;
  /// Connection::number() then: a token means nothing on another connection.
  std::uint32_t written_on = 0;
  /// Until then the server keeps it, unless it is evicted or flushed.
  Instant kept_until = 0;
  /// Another process wrote between the last two writes of this one.
  bool contested = false;
};

/// Whose entries a connection carries. All are called on the worker thread.
class KeyOwner {
 public:
  virtual ~KeyOwner() = default;

  /// The key's command is about to be sent: the owner may still choose another one.
  virtual void before_sending(KeyEntry& key) = 0;

  /// What was given to the connection comes back by one of these two, once. `why` is a sentence
  /// that names the server.
  virtual void on_reply(KeyEntry& key, const MetaReply& reply) = 0;
  virtual void on_lost(KeyEntry& key, Loss loss, std::string_view why) = 0;
};

}  // namespace sluice::memcached

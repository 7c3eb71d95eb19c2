#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/redis_space.h"
#include "stores/remote/pending_request.h"

namespace sluice::redis {

/// The script that makes all decisions: script.lua, with each algorithm's Lua inserted.
std::string_view script_text();

/// Its SHA-1 in 40 hexadecimal digits, by which EVALSHA names it.
std::string_view script_sha();

/// How many bytes the script replies about one request, besides its flag.
struct AnswerLayout {
  std::size_t head = 0;  // The head of the key's value, if it has one.
  std::size_t tail = 0;  // The summaries, and what was taken.
};

/// One call of the script: requests that the server decides in order, in one atomic step. add()
/// takes requests, write() makes the command, read() derives the decisions from the reply.
/// script.lua describes the formats of command and reply. Not thread-safe.
class ScriptCall {
 public:
  static constexpr std::size_t kMaxRequests = 128;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Called with a request and the reason why it has no decision: the server's error ("READONLY
  /// ...") or one sentence; empty if it has one. PendingRequest::may_be_executed is set. It may
  /// destroy the request.
  using Done = std::function<void(PendingRequest& request, std::string_view error)>;

  /// The requests are decided at `now`. If that is kStoreTime, the server's clock decides, or, with
  /// RedisOptions::client_time, this process's. The script repeats `number` in its reply, so that
  /// read() can tell whose reply it is: no other call in flight on the connection may have the same
  /// number.
  ScriptCall(const RedisOptions& options, Instant now, std::uint32_t number);

  /// The requests in the order in which they were added, null where one was forgotten.
  std::span<PendingRequest* const> requests() const { return requests_; }

  /// Adds a request, and sets its place. It must stay valid until read() or forget(). Returns false
  /// and adds nothing if the call would exceed kMaxRequests or kMaxBytes. REQUIRES: no two requests
  /// of a group that is charged all or none name the same key.
  bool add(PendingRequest& request);

  /// Appends the whole command (EVALSHA, in RESP).
  void write(std::string& output) const;

  /// Reads the whole reply, which must not be an error reply, makes the decisions, and calls `done`
  /// for each request that was not forgotten. A request has no decision if its key holds something
  /// that is no state, or if the server refuses to write it. If the reply has another call's
  /// number, no request has one; if it cannot be parsed, none from that place on. In these two
  /// cases it returns false: no later reply of the connection can be trusted.
  [[nodiscard]] bool read(std::string_view reply, const Done& done);

  /// The instant at which the decisions that were read were made.
  Instant judged_at() const { return now_; }
  /// For Done: the latest instant at which one of the states that were read last had been written,
  /// rounded down to kInstantUnitNs. If that is later than judged_at(), it was written by a clock
  /// that is ahead of the one that judged. 0 if there are none.
  Instant written_at() const { return written_at_; }

  /// This object does not access the request any more.
  void forget(const PendingRequest& request);

 private:
  void put_request(const Request& request, bool has_more);
  std::uint16_t space_place(const RedisSpace& space);
  std::string_view read_head(std::string_view reply, std::string_view& rest);
  bool read_unit(std::size_t i, std::string_view& rest, std::string_view& error);

  const std::uint32_t number_;
  // A guess of the deciding instant: the script is given the start of the window that contains it,
  // and steps from there to the right window.
  const Instant guess_;
  Instant now_ = 0;
  Instant written_at_ = 0;
  std::vector<PendingRequest*> requests_;
  std::map<std::size_t, std::vector<AnswerLayout>> forgotten_;  // By their place in requests_.

  // Of the command:
  std::size_t keys_ = 0;        // How many there are.
  std::string name_;            // The last key's.
  std::string names_;           // The keys' names, in RESP.
  std::string first_argument_;  // ARGV[1]: a header, then the requests.
  std::vector<const RedisSpace*> spaces_;
};

}  // namespace sluice::redis

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/resp.h"

namespace sluice::redis {

/// One call of the script: requests that the server decides in order, in one atomic step. add()
/// takes requests, write() makes the command, read() derives the decisions from the reply.
/// script.lua describes the formats of command and reply. Not thread-safe.
class ScriptCall {
 public:
  static constexpr std::size_t kMaxRequests = 128;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// With RedisOptions::client_time, write() takes the instant from this process's clock if none is
  /// given: so requests that arrived at different moments can share a call.
  explicit ScriptCall(const RedisOptions& options = {});

  /// How many requests or groups were added.
  std::size_t size() const { return units_.size(); }

  /// Adds a request, or a group of requests that are charged all or none. They, what they refer to
  /// and the decision must stay valid until read() or abandon(). Returns false and adds nothing if
  /// the call would exceed kMaxRequests or kMaxBytes. REQUIRES: at least one request; no two of
  /// them name the same key.
  bool add(std::span<const Request> requests, Decision& decision);

  /// Appends the whole command (EVALSHA, in RESP). The script repeats `number` in its reply, so
  /// that read() can tell whose reply it is: no other call in flight on the connection may have the
  /// same number.
  void write(Instant now_or_store_time, std::uint32_t number, std::string& output);

  /// Reads the whole reply, which must not be an error reply, and makes every decision. A request
  /// is kUnavailable if its key holds something that is no state, or if the server refuses to write
  /// it. If the reply has another call's number, all requests are kUnavailable; if it cannot be
  /// parsed, all from that place on. In these two cases it returns false: no later reply of the
  /// connection can be trusted. REQUIRES: write() was called.
  [[nodiscard]] bool read(std::string_view reply);

  /// The instant at which the decisions that were read were made.
  Instant judged_at() const { return now_; }

  /// Why the i-th request or group has no decision: the server's error ("READONLY ...") or one
  /// sentence; empty if it has a decision, or was abandoned.
  std::string_view error(std::size_t i) const { return units_[i].error; }

  /// The caller of the i-th request or group has gone after write(): this object does not access
  /// its requests, what they refer to and its decision any more.
  void abandon(std::size_t i) { units_[i].decision = nullptr; }

 private:
  /// What was added as one: a request, or several that are charged all or none.
  struct Unit {
    std::span<const Request> requests;
    Decision* decision = nullptr;  // null: abandoned
    std::string error = {};
  };

  void put_request(const Request& request, bool has_more, Instant near);
  std::uint16_t space_place(const RedisSpace& space);
  std::string_view read_head(std::string_view& rest);
  std::string_view read_unit(const Unit& unit, std::string_view reply) const;

  // In milliseconds, as doubles: the least lifetime of what is written, and what is added to each.
  const double least_lifetime_ms_;
  const double skew_ms_;
  const bool client_time_;
  std::vector<Unit> units_;
  std::size_t requests_ = 0;
  std::size_t bytes_;  // The command's, at most.
  std::uint32_t number_ = 0;
  Instant now_ = 0;

  // Of the command that is being written:
  std::string keys_;
  std::string questions_;
  std::vector<const RedisSpace*> spaces_;
};

}  // namespace sluice::redis

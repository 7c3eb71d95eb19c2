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

/// One call of the script: many requests, decided in order in one step of the server. add() takes
/// requests, write() makes the command, read() makes the decisions of the reply. script.lua says
/// what both look like. It keeps its memory when it is used again. Not thread-safe.
class ScriptCall {
 public:
  static constexpr std::size_t kMaxRequests = 128;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  /// Where no instant is given, `client_time` has this process's clock name it as the call is
  /// written, so that what came at different moments can travel together.
  explicit ScriptCall(const RedisOptions& options = {});

  void clear();

  /// How often add() has returned true.
  std::size_t size() const { return units_.size(); }

  /// Adds a request, or several that are charged all or none. They, what they refer to and the
  /// decision stay where they are until read() or abandon(). False, and nothing added, where the
  /// call would exceed kMaxRequests or kMaxBytes. REQUIRES: at least one; no two name the same key.
  bool add(std::span<const Request> requests, Decision& decision);

  /// Appends the whole command: EVALSHA, in RESP. The reply will name `number`, which no other call
  /// of the connection may have while a reply to it can come.
  void write(Instant now_or_store_time, std::uint32_t number, std::string& output);

  /// Reads the whole reply, which is no error, and makes every decision. What the reply does not
  /// answer is kUnavailable: a request whose key holds something else, or that the server refuses
  /// to write; all where it names another call's number; all that follows where it makes no sense.
  /// In these two cases it is false: no later reply of the connection is to be trusted. REQUIRES:
  /// write() was called.
  [[nodiscard]] bool read(std::string_view reply);

  /// The instant of the decisions that were read, by the clock that was asked for.
  Instant judged_at() const { return now_; }

  /// Why the i-th was not answered: one sentence, the server's where it gave one ("READONLY ...");
  /// empty where it was answered, or abandoned. Valid until clear().
  std::string_view error(std::size_t i) const { return units_[i].error; }

  /// The i-th was written, and its answer is not wanted any more: its requests, what they refer to
  /// and its decision are not touched again.
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
  std::size_t bytes_ = 0;  // The command's, at most.
  std::uint32_t number_ = 0;
  Instant now_ = 0;

  // Of the command that is being written:
  std::string keys_;
  std::string questions_;
  std::vector<const RedisSpace*> spaces_;
};

}  // namespace sluice::redis

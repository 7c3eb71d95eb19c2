#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/reply.h"

namespace sluice::redis {

struct CallOptions {
  /// Nothing is written with a shorter lifetime: for instants that have nothing to do with the
  /// server's clock.
  std::int64_t least_lifetime_ms = 0;
  /// Added to each lifetime: how far the clocks that name instants may be apart.
  std::int64_t skew_ms = 0;
  /// Where no instant is given, this process's clock names it as the call is written, so that what
  /// came at different moments can travel together; else the server's does as it runs the call.
  bool client_time = false;
};

/// One call of the script: many requests, decided in order in one step of the server. add() takes
/// requests, write() makes the command, read() makes the decisions of the reply. script.lua says
/// what both look like. It keeps its memory when it is used again. Not thread-safe.
class ScriptCall {
 public:
  static constexpr std::size_t kMaxRequests = 128;
  static constexpr std::size_t kMaxBytes = std::size_t{1} << 20;

  explicit ScriptCall(const CallOptions& options = {}) : options_(options) { clear(); }

  void clear();

  /// How often add() and add_together() have returned true.
  std::size_t size() const { return units_.size(); }

  /// Adds a request. It, what it refers to and the decision stay where they are until read() or
  /// abandon(). False, and nothing added, where the call would exceed kMaxRequests or kMaxBytes.
  bool add(const Request& request, Decision& decision) {
    return add_together({&request, 1}, decision);
  }
  /// Adds requests that are charged all or none. REQUIRES: at least one; no two name the same key.
  bool add_together(std::span<const Request> requests, Decision& decision);

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

  /// The i-th is asked for no more: its requests, what they refer to and its decision are not
  /// touched again. If it was written, it is carried out nevertheless.
  void abandon(std::size_t i) { units_[i].decision = nullptr; }
  void abandon_all() {
    for (std::size_t i = 0; i < size(); ++i) abandon(i);
  }

 private:
  /// What was added as one: a request, or several that are charged all or none.
  struct Unit {
    std::span<const Request> requests;
    Decision* decision = nullptr;  // null: abandoned
    bool written = false;
    std::string error = {};
  };

  void put_request(const Request& request, bool has_more, Instant near);
  std::uint16_t space_place(const RedisSpace& space);
  std::string_view read_head(const Reply& list);
  std::string_view read_unit(const Unit& unit, std::string_view reply) const;

  const CallOptions options_;
  std::vector<Unit> units_;
  std::size_t requests_ = 0;
  std::size_t bytes_ = 0;  // The command's, at most.
  std::uint32_t number_ = 0;
  Instant now_ = 0;

  // Of the command that is being written:
  std::vector<std::string> keys_;
  std::string questions_;
  std::vector<const RedisSpace*> spaces_;
};

}  // namespace sluice::redis

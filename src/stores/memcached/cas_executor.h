#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/instant.h"
#include "stores/memcached/connection.h"
#include "stores/memcached/key_entry.h"
#include "stores/memcached/key_state.h"
#include "stores/memcached/memcached_options.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/memcached/server_ring.h"
#include "stores/remote/remote_worker.h"

namespace sluice::memcached {

/// Decides requests by compare-and-swap: reads a key's value with its token, judges the requests
/// that wait for the key, in order, and writes the value back if no other process has written it
/// meanwhile. If one has, the race is lost: the round begins again with the winner's value.
///
/// Requests for a key that this process wrote last (LastWrite) are judged on that value without a
/// read. The write that follows is refused if another process has written since, so no decision
/// comes from the remembered value alone.
///
/// A process that is farther from the server than another one that writes the key without a pause
/// would lose every race. So a process that has lost races for a quarter of the deadline claims the
/// key. A process whose write is refused for that waits for the claimer's write, but only for half
/// of the deadline: a claimer that needs longer to write misses the deadline of its own callers.
///
/// A write whose outcome is unknown is not repeated: its requests are kUnavailable. A request whose
/// time is up is executed only if its key is being read or written by then.
class CasExecutor final : public Router, public KeyListener {
 public:
  /// The most requests that are judged on one value.
  static constexpr std::size_t kMaxJudged = 512;
  /// The most rounds at the same time, also of those whose callers have all been answered.
  static constexpr std::size_t kMaxUnderWay = 100'000;

  /// Both outlive it. Throws StoreError where a TLS file cannot be used.
  CasExecutor(const MemcachedOptions& options, RemoteWorker& worker);

  /// They must be started before the first request. Those of one server are next to each other.
  std::span<const std::unique_ptr<Connection>> connections() const { return connections_; }

  void route(PendingRequest& pending) override;
  void flush() override;
  std::string expire(PendingRequest& pending) override;
  void abandon(PendingRequest& pending) override;

 private:
  void on_sending(KeyEntry& key) override;
  void on_reply(KeyEntry& key, const MetaReply& reply,
                Connection::Clock::time_point arrived) override;
  void on_lost(KeyEntry& key, Loss loss, std::string_view why) override;
  void on_broken(KeyEntry& key, std::string_view why) override;

  Connection& connection_of(std::string_view name) const;
  void begin_round(KeyEntry& key);
  void next_round(KeyEntry& key, bool claims = false);
  void end_round(KeyEntry& key);
  void make_room();
  void on_read(KeyEntry& key, const MetaReply& reply, Connection::Clock::time_point arrived);
  static bool has_lost_for(const KeyEntry& key, std::chrono::nanoseconds time);
  bool read_state(KeyEntry& key, const MetaReply& reply);
  void judge(KeyEntry& key, Instant now);
  void judge_again(KeyEntry& key);
  bool prepare_write(KeyEntry& key, Instant now);
  void on_written(KeyEntry& key, const MetaReply& reply, Connection::Clock::time_point arrived);
  void on_race_lost(KeyEntry& key);
  void answer(RequestList& judged, Connection::Clock::time_point arrived);
  void fail(RequestList& pending, std::string_view why);
  void refuse(RequestList& pending, const std::string& refusal);

  const MemcachedOptions& options_;
  RemoteWorker& worker_;
  const ServerRing ring_;
  // The keys that have a round, or that this process wrote last.
  std::unordered_map<std::string, KeyEntry> keys_;
  std::size_t under_way_ = 0;
  std::size_t kept_bytes_ = 0;   // Of keys without a round.
  std::size_t next_bucket_ = 0;  // Where one is forgotten next, to make room.
  KeyState state_;               // Of the key that is judged.
  std::string written_;          // The value that is made of it.
  std::string name_;             // Of the key that is looked for.
  // Destroyed first: they return the keys that they carry.
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace sluice::memcached

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/instant.h"
#include "net/request_pipeline.h"
#include "stores/memcached/key_entry.h"
#include "stores/memcached/key_state.h"
#include "stores/memcached/memcached_options.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/memcached/server_ring.h"
#include "stores/remote/remote_worker.h"
#include "stores/remote/server_health.h"

namespace sluice::memcached {

class CasExecutor;

/// One connection to one server. Keys gather while others are under way, and are then sent as one
/// call. Used only by the thread that leads the worker.
class Connection final : public PipelineUser {
 public:
  using Clock = std::chrono::steady_clock;

  /// The most commands and bytes of a call.
  static constexpr std::size_t kMaxCommands = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// `deadline` is that of a decision. `worker`, and `executor`, whose keys it sends, outlive it.
  /// Throws as RequestPipeline does.
  Connection(RemoteWorker& worker, const Endpoint& server, std::chrono::nanoseconds deadline,
             CasExecutor& executor);

  /// Begins to connect. REQUIRES: called once.
  void start() { pipeline_->start(); }

  /// Why no caller should wait for this server now; empty if one may.
  std::string_view why_not(Clock::time_point now) const { return health_.why_not(*pipeline_, now); }
  bool is_broken() const { return health_.is_broken(); }

  /// How often it has been up: the number of the connection that is up now.
  std::uint32_t number() const { return number_; }

  /// Sends the key's command when the pipeline asks for the next one, after flush(). The entry must
  /// stay valid until then.
  void send(KeyEntry& key) { waiting_.push_back(&key); }
  /// The same, before all others, and only on the present connection: a cas token is not valid on
  /// another one.
  void send_now(KeyEntry& key) { waiting_.push_front(&key); }
  /// Sends what was given to send(). What was given to send_now() needs no flush(): that is called
  /// while a reply is received, after which the pipeline asks for commands.
  void flush() {
    if (!waiting_.empty()) pipeline_->flush();
  }

  /// "memcached 127.0.0.1:11211".
  const std::string& name() const { return health_.server(); }
  /// The error of a decision that was not made in time.
  const std::string& late_error() const { return health_.late_error(); }

  std::unique_ptr<Command> next_command() override;
  std::string handshake() override { return "version\r\nmn\r\n"; }
  std::size_t handshake_replies() override { return MetaFraming::kHandshakeReplies; }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<MetaFraming>(); }
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Call;

  CasExecutor& executor_;
  ServerHealth health_;
  std::deque<KeyEntry*> waiting_;
  std::uint32_t number_ = 0;
  // Destroyed first: it reports what is in flight as lost.
  const std::shared_ptr<RequestPipeline> pipeline_;
};

/// Decides requests by compare-and-swap: reads a key's value with its token, judges all requests
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
/// time is up before it is judged is not executed; but the first such one of a key that is being
/// read is told what remains.
class CasExecutor final : public Router {
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
  std::string_view expire(PendingRequest& pending) override;
  void abandon(PendingRequest& pending) override;

  // Called by the connection:

  /// The key's command is about to be sent. Instead of a read, this may choose a write, having
  /// judged the waiting requests on the value that was written last.
  void judge_on_last_write(KeyEntry& key);
  /// For each key given to the connection, one of these two is called once. `why` is a sentence
  /// that names the server.
  void on_reply(KeyEntry& key, const MetaReply& reply, Connection::Clock::time_point arrived);
  void on_lost(KeyEntry& key, Loss loss, std::string_view why);

 private:
  Connection& connection_of(std::string_view name) const;
  void begin_round(KeyEntry& key);
  void next_round(KeyEntry& key, bool claims = false);
  void end_round(KeyEntry& key);
  void make_room();
  void on_read(KeyEntry& key, const MetaReply& reply, Connection::Clock::time_point arrived);
  static bool has_lost_for(const KeyEntry& key, std::chrono::nanoseconds time);
  bool read_state(KeyEntry& key, const MetaReply& reply);
  void judge(KeyEntry& key, Instant now);
  Decision decide(const PendingRequest& pending, const Request& request, Instant now);
  void tell_what_is_left(PendingRequest& late, Instant now);
  void judge_again(KeyEntry& key);
  void fail_late(RequestList& requests);
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
  std::string name_;             // Of the key that is looked for.
  std::string late_;             // What expire() returned last.
  // Destroyed first: they return the keys that they carry.
  std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace sluice::memcached

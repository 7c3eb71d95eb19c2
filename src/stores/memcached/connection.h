#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/request_pipeline.h"
#include "stores/memcached/key_entry.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/remote_worker.h"

namespace sluice::memcached {

/// Learns what happens to a key that was given to a connection: the CasExecutor.
class KeyListener {
 public:
  virtual ~KeyListener() = default;

  /// The key's command is about to be sent. Instead of a read, this may choose a write, having
  /// judged the waiting requests on the value that was written last.
  virtual void on_sending(KeyEntry& key) = 0;
  /// For each key given to the connection, one of these three is called once. `why` is a sentence
  /// that names the server.
  virtual void on_reply(KeyEntry& key, const MetaReply& reply,
                        std::chrono::steady_clock::time_point arrived) = 0;
  virtual void on_lost(KeyEntry& key, Loss loss, std::string_view why) = 0;
  /// It was not sent, and does not wait for another connection.
  virtual void on_broken(KeyEntry& key, std::string_view why) = 0;
};

/// One connection to one server. Keys gather while others are under way, and are then sent as one
/// call. Used only by the thread that leads the worker.
class Connection final : public PipelineUser {
 public:
  using Clock = std::chrono::steady_clock;

  /// The most commands and bytes of a call.
  static constexpr std::size_t kMaxCommands = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// `worker` and `listener` outlive it. Throws as RequestPipeline does.
  Connection(RemoteWorker& worker, const Endpoint& server, KeyListener& listener);

  /// Begins to connect. REQUIRES: called once.
  void start() { pipeline_->start(); }

  /// Why no caller should wait for this server now; empty if one may.
  std::string_view why_not() const { return pipeline_->why_not(worker_.monitor().all_read_at()); }

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
  const std::string& name() const { return name_; }

  std::unique_ptr<Command> next_command() override;
  std::string handshake() override { return "version\r\nmn\r\n"; }
  std::size_t handshake_replies() override { return MetaFraming::kHandshakeReplies; }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<MetaFraming>(); }
  void on_up() override;
  void on_down(std::string_view why, bool is_broken) override;

 private:
  class Call;

  RemoteWorker& worker_;
  KeyListener& listener_;
  const std::string name_;
  StoreMonitor::Server monitored_;
  std::deque<KeyEntry*> waiting_;
  std::uint32_t number_ = 0;
  // Destroyed first: it reports what is in flight as lost.
  const std::shared_ptr<RequestPipeline> pipeline_;
};

}  // namespace sluice::memcached

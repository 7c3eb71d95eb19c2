#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/request_pipeline.h"
#include "stores/memcached/key_entry.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/server_health.h"

namespace sluice::memcached {

struct ConnectionSettings {
  Endpoint endpoint;
  /// Of a decision.
  std::chrono::nanoseconds deadline;
};

/// One connection to one server: keys gather while others are under way, and what has gathered
/// travels as one call. Its circuit breaker is error().
///
/// Knows nothing of sockets: it is the user of a pipeline. Lives on the worker thread.
class Connection final : public ConnectionUser {
 public:
  using Clock = std::chrono::steady_clock;

  /// A call that has so many commands, or bytes, takes no more.
  static constexpr std::size_t kMaxCommands = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// `owner`, whose keys it carries, outlives it.
  Connection(const ConnectionSettings& settings, KeyOwner& owner);
  ~Connection() override;

  /// What the connection asks of its pipeline: to ask next_command() again, and to connect anew,
  /// for the reason given, where the server cannot be trusted.
  struct PipelineCalls {
    std::function<void()> flush;
    std::function<void(std::string_view)> reconnect;
  };
  void attach(PipelineCalls calls) { pipeline_ = std::move(calls); }

  /// Why no caller should wait for this server now; empty if one may.
  std::string_view error(Clock::time_point now) const;
  bool is_broken() const { return health_.is_broken(); }

  /// The number of the connection that is up, which no other one has in this process; 0 if none is.
  std::uint32_t number() const { return number_; }

  /// To be sent when the connection asks next: soon, after flush(). Stays where it is until then.
  void send(KeyEntry& key) { waiting_.push_back(&key); }
  /// The same, before all others and by the connection that is up now or not at all: a cas token
  /// dies with its connection.
  void send_now(KeyEntry& key) { urgent_.push_back(&key); }
  /// Asks the connection to send, if there is something.
  void flush() {
    if (!waiting_.empty()) pipeline_.flush();
  }

  /// "memcached 127.0.0.1:11211".
  const std::string& name() const { return health_.server(); }
  /// What is said of a decision that has not come in time.
  const std::string& late() const { return health_.late(); }
  /// What is said of a value that comes without a cas token, over which nothing can be written.
  std::string no_tokens() const { return name() + " keeps no cas tokens (-C), which Sluice needs"; }
  /// How its connection is to be made.
  PipelineOptions pipeline_options() const;

  Command* next_command() override;
  std::string handshake() override { return "version\r\nmn\r\n"; }
  std::size_t handshake_replies() override { return 2; }
  std::optional<std::string> on_handshake_reply(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<MetaFraming>(); }
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Call;

  void write(Call& call, std::string& output);
  void on_reply(Call& call, std::string_view reply);
  void on_lost(Call& call, Loss loss, std::string_view why);
  void release(const Call& call);
  void lose(std::deque<KeyEntry*>& queue, std::string_view why);

  const Endpoint endpoint_;
  KeyOwner& owner_;
  ServerHealth health_;
  PipelineCalls pipeline_;
  std::deque<KeyEntry*> urgent_;
  std::deque<KeyEntry*> waiting_;
  std::deque<std::unique_ptr<Call>> in_flight_;  // Oldest first.
  std::uint32_t number_ = 0;
};

}  // namespace sluice::memcached

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

#include "net/pipeline.h"
#include "stores/memcached/key_entry.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/remote/server_health.h"

namespace sluice::memcached {

struct LaneSettings {
  Endpoint endpoint;
  /// Of a decision.
  std::chrono::nanoseconds deadline;
};

/// One connection to one server: keys gather while others are under way, and what has gathered
/// travels as one exchange. Its circuit breaker is fault().
///
/// Knows nothing of sockets: it is the user of a pipeline. Lives on the courier's thread.
class Lane final : public PipelineUser {
 public:
  using Clock = std::chrono::steady_clock;

  /// An exchange that has so many commands, or bytes, takes no further one.
  static constexpr std::size_t kMaxCommands = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  /// `owner`, whose keys it carries, outlives it.
  Lane(const LaneSettings& settings, KeyOwner& owner);
  ~Lane() override;

  /// What the lane asks of its connection: to ask next_exchange() again, and to be made anew where
  /// it cannot be trusted, for the reason given.
  struct Connection {
    std::function<void()> kick;
    std::function<void(std::string_view)> reconnect;
  };
  void attach(Connection connection) { connection_ = std::move(connection); }

  /// Why nobody should wait for this server now; empty where one may.
  std::string_view fault(Clock::time_point now) const;
  bool is_broken() const { return health_.is_broken(); }

  /// The number of the connection that is up, which no other one has in this process; 0 where none
  /// is.
  std::uint32_t connection() const { return connection_number_; }

  /// To be sent when the connection asks next: soon, after kick(). Stays where it is until then.
  void send(KeyEntry& key) { waiting_.push_back(&key); }
  /// The same, before all others and by the connection that is up now or not at all: a cas token
  /// dies with its connection.
  void send_now(KeyEntry& key) { urgent_.push_back(&key); }
  void kick() {
    if (!waiting_.empty()) connection_.kick();
  }

  /// "memcached 127.0.0.1:11211".
  const std::string& name() const { return health_.server(); }
  /// What is said of a decision that has not come in time.
  const std::string& late() const { return health_.late(); }
  /// What is said of a value that comes without a cas token, over which nothing can be written.
  std::string no_tokens() const { return name() + " keeps no cas tokens (-C), which Sluice needs"; }
  /// How its connection is to be made.
  PipelineOptions pipeline_options() const;
  const Endpoint& endpoint() const { return endpoint_; }

  Exchange* next_exchange() override;
  std::string greeting() override { return "version\r\nmn\r\n"; }
  std::size_t greeting_replies() override { return 2; }
  std::optional<std::string> on_greeting(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<MetaFraming>(); }
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Batch;

  Batch& idle_batch();
  void write(Batch& batch, std::string& output);
  void on_reply(Batch& batch, std::string_view reply);
  void hand_out(Batch& batch);
  void on_lost(Batch& batch, Loss loss, std::string_view why);
  void release(Batch& batch);
  void lose(std::deque<KeyEntry*>& queue, std::string_view why);

  const Endpoint endpoint_;
  KeyOwner& owner_;
  ServerHealth health_;
  Connection connection_;
  std::deque<KeyEntry*> urgent_;
  std::deque<KeyEntry*> waiting_;
  std::vector<std::unique_ptr<Batch>> batches_;  // All there are.
  std::vector<Batch*> idle_batches_;
  std::deque<Batch*> in_flight_;  // Oldest first.
  std::uint32_t connection_number_ = 0;
};

}  // namespace sluice::memcached

#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "net/pipeline.h"
#include "stores/memcached/meta_protocol.h"
#include "stores/memcached/query.h"

namespace sluice::memcached {

struct LaneSettings {
  Endpoint endpoint;
  /// Nothing has come for so long: who asks now would wait in vain.
  std::chrono::nanoseconds silence;
};

/// One connection to one server: queries gather while others are under way, and what has gathered
/// travels as one exchange. Its circuit breaker is fault().
///
/// Knows nothing of sockets: it is the user of a pipeline. Lives on the courier's thread.
class Lane final : public PipelineUser {
 public:
  using Clock = std::chrono::steady_clock;

  /// An exchange that has so many commands, or bytes, takes no further query.
  static constexpr std::size_t kMaxCommands = 256;
  static constexpr std::size_t kMaxBytes = std::size_t{4} << 20;

  explicit Lane(LaneSettings settings);
  ~Lane() override;

  /// What the lane asks of its connection: to ask next_exchange() again, and to be made anew where
  /// it cannot be trusted, for the reason given.
  struct Connection {
    std::function<void()> kick;
    std::function<void(std::string_view)> reconnect;
  };
  void attach(Connection connection) { connection_ = std::move(connection); }

  /// Why nobody should wait for this server now; nothing where one may.
  std::optional<std::string> fault() const;
  /// An attempt to connect has failed, or nothing had come for too long when the connection was
  /// lost, and none has succeeded since.
  bool is_broken() const { return broken_; }

  /// To be sent when the connection asks next: soon, after kick(). Stays where it is until then.
  void send(Query& query) { waiting_.push_back(&query); }
  /// The same, before all others and by the connection that is up now or not at all: a cas token
  /// dies with its connection.
  void send_now(Query& query) { urgent_.push_back(&query); }
  void kick() { connection_.kick(); }

  /// "memcached 127.0.0.1:11211".
  const std::string& name() const { return name_; }
  const Endpoint& endpoint() const { return settings_.endpoint; }

  Exchange* next_exchange() override;
  std::string greeting() override { return "mn\r\n"; }
  std::size_t greeting_replies() override { return 1; }
  std::optional<std::string> on_greeting(std::size_t i, std::string_view reply) override;
  std::unique_ptr<Framing> make_framing() override { return std::make_unique<MetaFraming>(); }
  void on_up() override;
  void on_down(std::string_view why) override;

 private:
  class Batch;

  Batch& idle_batch();
  void write(Batch& batch, std::string& output);
  void on_reply(Batch& batch, std::string_view reply);
  void on_lost(Batch& batch, Loss loss, std::string_view why);
  void release(Batch& batch);
  bool is_overdue(const Batch& batch) const;

  const LaneSettings settings_;
  const std::string name_;
  Connection connection_;
  std::deque<Query*> urgent_;
  std::deque<Query*> waiting_;
  std::vector<std::unique_ptr<Batch>> batches_;  // All there are.
  std::vector<Batch*> idle_batches_;
  std::deque<Batch*> in_flight_;  // Oldest first.
  bool was_up_ = false;
  bool fell_silent_ = false;  // What the connection lost had been sent long before.
  bool broken_ = false;
  std::string down_why_;
};

}  // namespace sluice::memcached

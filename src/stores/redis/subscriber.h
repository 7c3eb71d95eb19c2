#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/backoff.h"
#include "net/client_stream.h"
#include "net/connector.h"
#include "net/conversation.h"
#include "net/event_loop.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/reply.h"
#include "stores/redis/watches.h"

namespace sluice::redis {

/// A connection that hears what is published on the channels of a store's watches. It is made for
/// the first of them, kept up as long as there are some, and given up a while after the last.
///
/// Who watches a channel is called for each of its messages, and at least once whenever it has
/// begun to be heard, or was heard already on behalf of another who has gone: what was published
/// before was missed.
///
/// All members belong to the loop's thread, except the constructor, watch(), and the destructor,
/// which is called after the loop has ended.
class Subscriber final : public EventSink {
 public:
  /// The servers of which any hears all messages, as far as they are known, those that are up
  /// first.
  using Servers = std::function<std::vector<Endpoint>()>;

  Subscriber(const RedisOptions& options, EventLoop& loop, Servers servers);
  ~Subscriber() override;

  /// From any thread. Null where there are too many.
  std::unique_ptr<Watch> watch(std::string channel, std::function<void()> released) {
    return watches_->add(std::move(channel), std::move(released));
  }

  void on_events(std::uint32_t events) override;

 private:
  using Clock = EventLoop::Clock;
  enum class Phase : std::uint8_t { kResting, kConnecting, kUp, kPausing };
  class Sync;

  void sync();
  void follow(const std::set<std::string>& changed);
  void on_time();
  void begin_attempt();
  void connect(const Endpoint& endpoint);
  void proceed(Connector::Progress progress);
  void greet();
  void advance();
  void receive();
  void hear(std::string_view reply);
  void hear_message(const Reply& reply);
  void flush();
  void say(std::initializer_list<std::string_view> command);
  void beat();
  bool is_current(const std::vector<Endpoint>& servers) const;
  void fail(bool of_no_use) noexcept;
  void rest();
  void close();

  const RedisOptions& options_;
  EventLoop& loop_;
  const Servers servers_;
  std::shared_ptr<Sync> sync_;
  std::shared_ptr<Watches> watches_;
  Backoff backoff_;
  std::mt19937 random_{std::random_device{}()};

  Phase phase_ = Phase::kResting;
  // At the end of a pause, or of the time for an attempt; while it is up, for each beat.
  Timer timer_{loop_, [this] { on_time(); }};
  Endpoint endpoint_;
  std::optional<Connector> connector_;
  Clock::time_point up_since_;
  std::unique_ptr<ClientStream> stream_;
  std::optional<Conversation> talk_;
  std::uint32_t watched_ = 0;
  // Channels asked for, and whether the server has confirmed it.
  std::unordered_map<std::string, bool> subscribed_;
  std::size_t greetings_ = 0;  // Replies to the greeting that are still to come.
  bool heard_ = false;         // Anything, since the last beat.
  int idle_beats_ = 0;         // With nobody watching.
};

}  // namespace sluice::redis

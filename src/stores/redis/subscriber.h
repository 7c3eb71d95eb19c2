#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "net/request_pipeline.h"
#include "stores/redis/handshake.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/watches.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

/// A connection that subscribes to the channels of a store's watches (see Store::watch()). The
/// connection is made for the first watch, kept up while there are watches, and closed ten seconds
/// after the last one has gone.
///
/// A watch is called for each message on its channel. It is also called once the server has
/// confirmed the subscription, because messages before that were missed; if the channel is still
/// subscribed because of an earlier watch that has gone, the new watch is called at once.
///
/// Used only by the thread that leads the worker, except the constructor and watch(). Destroyed
/// after the worker has stopped.
class Subscriber final : public RedisPipelineUser {
 public:
  /// Returns the known servers, those that are connected first. Any of them sends all messages.
  using Servers = std::function<std::vector<Endpoint>()>;

  Subscriber(const RedisOptions& options, RemoteWorker& worker, Servers servers);
  ~Subscriber() override;

  /// Thread-safe. Null if there are too many watches: see Watches.
  std::unique_ptr<Watch> watch(std::string channel, std::function<void()> released) {
    return watches_->add(std::move(channel), std::move(released));
  }

  std::unique_ptr<Command> next_command() override;
  void on_up() override;
  void on_down(std::string_view why) override;
  bool on_push(std::string_view reply) override;

 private:
  class TextCommand;

  void sync();
  void beat();
  void open(const Endpoint& endpoint);
  std::string subscriptions();

  RemoteWorker& worker_;
  const Servers servers_;
  const std::shared_ptr<Watches> watches_;
  IoTimer beat_;          // At its time beat() checks the connection, once a second.
  IoContext::Work work_;  // Set while there are watches.
  int idle_beats_ = 0;    // How many beats in a row there was no watch.

  bool pings_ = false;  // A PING is to be sent.
  // The channels subscribed to, and whether the server has confirmed each.
  std::unordered_map<std::string, bool> subscribed_;
  Endpoint endpoint_;
  std::optional<RequestPipeline> pipeline_;
};

}  // namespace sluice::redis

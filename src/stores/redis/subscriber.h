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

/// A connection that receives what is published on the channels of a store's watches. It is made
/// for the first of them, kept up as long as there are some, and given up a while after the last.
///
/// A watch is called for each message on its channel, and at least once whenever the server has
/// confirmed that it will send them, or had confirmed it already for another watch that has gone:
/// what was published before was missed.
///
/// Belongs to the thread that leads the worker, except the constructor and watch(). Destroyed after
/// the worker has stopped.
class Subscriber final : public HandshakeUser {
 public:
  /// The servers of which any sends all messages, as far as they are known, those that are up
  /// first.
  using Servers = std::function<std::vector<Endpoint>()>;

  Subscriber(const RedisOptions& options, RemoteWorker& worker, Servers servers);
  ~Subscriber() override;

  /// From any thread. Null where there are too many.
  std::unique_ptr<Watch> watch(std::string channel, std::function<void()> released) {
    return watches_->add(std::move(channel), std::move(released));
  }

  Command* next_command() override;
  void on_up() override;
  void on_down(std::string_view why) override;
  bool on_push(std::string_view reply) override;

 private:
  class Text;

  void sync();
  void beat();
  void open(const Endpoint& endpoint);
  void subscribe(const std::string& channel);

  RemoteWorker& worker_;
  const Servers servers_;
  const std::shared_ptr<Watches> watches_;
  IoTimer beat_;          // When the connection is looked at.
  IoContext::Work work_;  // As long as there are watches.
  int idle_beats_ = 0;    // Without a watch.

  const std::unique_ptr<Text> say_;
  const std::unique_ptr<Text> ping_;
  // The channels asked for, and whether the server has confirmed it.
  std::unordered_map<std::string, bool> subscribed_;
  Endpoint endpoint_;
  std::optional<RequestPipeline> pipeline_;
};

}  // namespace sluice::redis

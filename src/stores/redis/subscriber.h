#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/store.h"
#include "stores/redis/connection.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/redis_router.h"
#include "stores/remote/remote_worker.h"

namespace sluice::redis {

/// A connection that subscribes to the channels of a store's watches (see Store::watch()). The
/// connection is made for the first watch, kept up while there are watches, and closed ten seconds
/// after the last one has gone. A channel is subscribed to for up to a second after its last watch.
///
/// A watch is called for each message on its channel. It is also called once the server has
/// confirmed the subscription, because messages before that were missed; if an earlier watch of the
/// channel is still there, the subscription may be confirmed already, and it is called at once.
///
/// Used only by the thread that leads the worker, except the constructor and watch(). Destroyed
/// after the worker has stopped.
class Subscriber final : public ConnectionListener {
 public:
  /// The most bytes of the watches: each counts as its channel's name and kBytesBeside.
  static constexpr std::size_t kMaxBytes = std::size_t{16} << 20;
  static constexpr std::size_t kBytesBeside = 256;

  /// All of them outlive it.
  Subscriber(const RedisOptions& options, RemoteWorker& worker, RedisRouter& router);

  /// Thread-safe. Null if there are too many watches. The watch may outlive this object. Destroying
  /// it waits for a call of `released` that another thread makes.
  Watch watch(std::string channel, std::function<void()> released);

  void on_up(Connection& connection) override;
  void on_down(Connection& connection, std::string_view why) override;
  bool on_push(Connection& connection, std::string_view reply) override;

 private:
  struct Listener;

  static constexpr std::size_t kForgetAt = 16;

  struct Channel {
    std::vector<std::shared_ptr<Listener>> listeners;
    std::size_t forget_at = kForgetAt;  // At so many, those that have gone are forgotten.
    bool is_confirmed = false;          // The server has confirmed the subscription.
  };

  void add(const std::shared_ptr<Listener>& listener);
  void forget_gone(Channel& channel);
  void forget_all_gone();
  void tell(std::string_view command, const std::string& channel);
  void beat();
  void confirm_none();

  const RedisOptions& options_;
  RemoteWorker& worker_;
  RedisRouter& router_;
  std::atomic<std::size_t> bytes_ = 0;
  std::unordered_map<std::string, Channel> channels_;
  IoTimer beat_;          // At its time beat() checks the connection, once a second.
  IoContext::Work work_;  // Set while there are channels.
  int idle_beats_ = 0;    // How many beats in a row there was no watch.
  std::optional<Connection> connection_;
};

}  // namespace sluice::redis

#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "core/instant.h"
#include "core/store.h"
#include "core/waiting.h"
#include "stores/redis/carrier.h"
#include "stores/redis/redis_options.h"
#include "stores/redis/redis_space.h"
#include "stores/redis/subscriber.h"
#include "stores/remote/courier.h"
#include "stores/remote/space_registry.h"

namespace sluice::redis {

class DirectCall;

/// Keys in Redis 5 or later, or a server that speaks and behaves like it: one string a key, changed
/// by one script in one round trip. A decision that the server does not answer within the deadline
/// is kUnanswered.
///
/// Thread-safe. Callers share the connections: one that finds a connection idle drives it itself,
/// others travel together in one call of the script.
class RedisStore final : public Store {
 public:
  /// Connects in the background; a server that cannot be reached is no error here. Throws
  /// StoreError where a TLS file cannot be used, std::system_error where the system gives no
  /// thread.
  explicit RedisStore(RedisOptions options);
  /// In virtual time, removes the keys under the prefix for as long as the servers go on answering,
  /// until none of them has for five seconds; what may be left is told to options.left_behind.
  ~RedisStore() override;

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override;
  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override;
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  /// On a cluster, throws std::invalid_argument where the keys do not share a slot; anywhere, for
  /// what does not take, and for limits of permits.
  Decision decide_all(std::span<const Request> requests, Instant now) override;
  bool submit_inquiry(Inquiry& inquiry) override;
  bool answers_later() const override { return true; }
  /// `released` is called on the store's own thread, which carries all its decisions, so that it
  /// does little; also when the key has just begun to be watched, or is so again after the
  /// connection was lost: what was given back before then was missed. A watch may outlive the
  /// store.
  std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& space, std::string_view key,
                               std::function<void()> released) override;
  /// This process's clock: the server's is read by the script.
  Instant now() const override;

 private:
  void ask(AwaitedInquiry& inquiry);
  bool decide_here(Inquiry& inquiry, Courier::Clock::time_point deadline);
  std::unique_ptr<DirectCall> take_call();
  void keep_call(std::unique_ptr<DirectCall> call);
  void check_together(std::span<const Request> requests) const;
  std::vector<Endpoint> servers();

  const RedisOptions options_;
  RedisCarrier carrier_;
  Courier courier_;
  Subscriber subscriber_;
  Lane* here_ = nullptr;  // The connection that callers may drive.
  SpaceRegistry<RedisSpace> spaces_;

  std::mutex mutex_;  // guards calls_
  std::vector<std::unique_ptr<DirectCall>> calls_;
};

}  // namespace sluice::redis

#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stores/redis/fleet.h"
#include "stores/redis/lane.h"
#include "stores/remote/courier.h"
#include "stores/remote/server_health.h"

namespace sluice::redis {

/// Takes errands to the server that has their key, and on to another one where a server says so.
/// Lives on the courier's thread.
class RedisCarrier final : public Carrier, public LaneOwner {
 public:
  /// An errand is redirected so often at most.
  static constexpr int kMaxRedirects = 5;

  explicit RedisCarrier(const RedisOptions& options)
      : options_(options), nowhere_("redis", options.deadline) {}

  /// Makes the fleet, which takes errands once it has started. Throws std::runtime_error where a
  /// TLS file cannot be used.
  void open(Courier& courier);
  /// After the courier's thread has ended, before the courier goes.
  void close() { fleet_.reset(); }
  Fleet& fleet() { return *fleet_; }
  bool is_cluster() const { return options_.topology == Topology::kCluster; }
  /// In virtual time: a server has greeted once, so that something may have been written.
  bool has_greeted() const { return !greeted_.empty(); }

  void carry(Errand& errand) override;
  void dispatch() override;
  std::string_view abandon(Errand& errand) override;

  void on_up(Lane& lane) override;
  void on_down(Lane& lane, std::string_view why) override { fleet_->on_down(lane, why); }
  void on_refused(Errand& errand, Lane& lane, std::string_view text) override;

 private:
  template <typename Step>
  void take(Errand& errand, Step step);
  void touch(Lane& lane);
  [[gnu::noinline]] void touch_another(Lane& lane);
  void route(Errand& errand);
  void route_all(ErrandList& errands);
  void take_back(Errand& errand, Lane& lane, std::string_view text);
  void redirect(Errand& errand, Lane& lane, const ServerError& error);
  void rest(Errand& errand);
  std::uint16_t slot_of(const Errand& errand);

  const RedisOptions& options_;
  const ServerHealth nowhere_;  // Of the server that is not known yet.
  Courier* courier_ = nullptr;
  std::unique_ptr<Fleet> fleet_;
  std::vector<Lane*> touched_;     // Have been given errands since the last dispatch.
  ErrandList waiting_;             // Until it is known which server has their key.
  ErrandList resting_;             // To be asked again in a moment.
  std::optional<Timer> rest_;      // As long as there are some.
  std::set<std::string> greeted_;  // Servers that have greeted, in virtual time.
  std::string key_;
};

}  // namespace sluice::redis

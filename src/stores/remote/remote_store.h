#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/instant.h"
#include "core/store.h"
#include "net/endpoint.h"
#include "stores/remote/remote_worker.h"

namespace sluice {

/// A Store whose states are on other machines. It passes each call on to its RemoteWorker. A
/// decision that was not made within the deadline is kUnavailable.
///
/// S is its Space, which is constructed from a prefix and a limit, and has the limit's parts().
///
/// The constructor of each connects in the background; a server that cannot be reached is no error
/// there. It throws TlsError if a TLS file cannot be used, another std::runtime_error if the system
/// has no thread or descriptor left.
template <class S>
class RemoteStore : public BatchStore {
 public:
  /// The most spaces that may be in use at the same time.
  static constexpr std::size_t kMaxSpaces = 16'384;

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override {
    const std::lock_guard lock(mutex_);
    const auto found = spaces_.find(limit.space);
    const auto known = found == spaces_.end() ? nullptr : found->second.lock();
    if (known == nullptr) return Space::hold(add(limit), held);
    if (keeps_state(known->parts(), limit.parts)) return Space::hold(known, held);
    if (known->has_others(held)) {
      throw StoreError(kind_ + " store: the keys of '" + limit.space + "' are those of '" +
                       describe_parts(known->parts()) + "', which '" + limit.expression +
                       "' cannot take over while others use them");
    }
    const auto fresh = add(limit);
    fresh->succeed(*known);
    return Space::hold(fresh, held);
  }
  void submit(std::unique_ptr<Batch> batch) override {
    if (batch->is_together()) check_together(batch->requests());
    worker_.submit(std::move(batch));
  }
  void submit_and_wait(std::unique_ptr<Batch> batch) override {
    if (batch->is_together()) check_together(batch->requests());
    worker_.submit_and_wait(std::move(batch));
  }
  bool answers_later() const override { return true; }
  void on_up(std::function<void()> up) override {
    worker_.post(
        [this, up = std::move(up)] { worker_.monitor().on_up([this, up] { worker_.post(up); }); });
  }
  /// This process's clock.
  Instant now() const override { return wall_now(); }
  void add_health(StoreHealth& health) const override { worker_.monitor().add_to(health); }

 protected:
  /// `kind` names the store in sentences: "redis". The spaces are made with `prefix`. The derived
  /// store calls worker().start(), and in its destructor worker().stop().
  RemoteStore(std::string kind, const std::vector<Endpoint>& servers,
              std::chrono::nanoseconds deadline, std::string prefix)
      : kind_(std::move(kind)),
        prefix_(std::move(prefix)),
        worker_({.deadline = deadline, .name = name_of(servers)}) {}

  RemoteWorker& worker() { return worker_; }

 private:
  /// Throws std::invalid_argument if the store cannot decide these requests together, all or
  /// nothing.
  virtual void check_together(std::span<const Request> requests) const = 0;

  /// "the store on redis 127.0.0.1:6379": see RemoteWorker::Options.
  std::string name_of(const std::vector<Endpoint>& servers) const {
    std::string name = "the store on " + kind_;
    for (const Endpoint& server : servers) {
      name += &server == servers.data() ? " " : ", ";
      name += server.text();
    }
    return name;
  }

  std::shared_ptr<S> add(const LimitDefinition& limit) {
    if (spaces_.size() >= kMaxSpaces) {
      std::erase_if(spaces_, [](const auto& entry) { return entry.second.expired(); });
      if (spaces_.size() >= kMaxSpaces) {
        throw StoreError(kind_ + " store: " + std::to_string(kMaxSpaces) +
                         " limits are in use, the most it can keep apart");
      }
    }
    auto space = std::make_shared<S>(prefix_, limit);
    spaces_[limit.space] = space;
    return space;
  }

  const std::string kind_;
  const std::string prefix_;
  std::mutex mutex_;
  // By name, so that a name means one limit at a time. Guarded by mutex_.
  std::unordered_map<std::string, std::weak_ptr<S>> spaces_;
  RemoteWorker worker_;
};

}  // namespace sluice

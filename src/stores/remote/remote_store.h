#pragma once

#include <memory>
#include <span>
#include <utility>

#include "core/instant.h"
#include "core/store.h"
#include "stores/remote/remote_worker.h"

namespace sluice {

/// A Store whose states are on other machines. It passes each call on to its RemoteWorker. A
/// decision that was not made within the deadline is kUnavailable.
class RemoteStore : public BatchStore {
 public:
  void submit(std::unique_ptr<Batch> batch) override {
    if (batch->is_together()) check_together(batch->requests());
    worker_.submit(std::move(batch));
  }
  void submit_and_wait(std::unique_ptr<Batch> batch) override {
    if (batch->is_together()) check_together(batch->requests());
    worker_.submit_and_wait(std::move(batch));
  }
  bool answers_later() const override { return true; }
  /// The requests that were not answered in time.
  const LateCounters& late() const { return worker_.late(); }
  /// This process's clock.
  Instant now() const override { return wall_now(); }
  void add_health(StoreHealth& health) const override {
    worker_.monitor().add_to(health);
    health.late_server = late().server.load(std::memory_order_relaxed);
    health.late_here = late().here.load(std::memory_order_relaxed);
  }

 protected:
  /// `router` must live until worker().stop(), which the destructor of the derived store must call.
  RemoteStore(Router& router, const RemoteWorker::Options& options) : worker_(router, options) {}

  RemoteWorker& worker() { return worker_; }

 private:
  /// Throws std::invalid_argument if the store cannot decide these requests together, all or
  /// nothing.
  virtual void check_together(std::span<const Request> requests) const = 0;

  RemoteWorker worker_;
};

}  // namespace sluice

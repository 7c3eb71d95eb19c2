#pragma once

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/instant.h"
#include "core/store.h"
#include "net/endpoint.h"
#include "stores/remote/remote_worker.h"

namespace sluice {

/// A Store whose states are on other machines. It passes each call on to its RemoteWorker. A
/// decision that was not made within the deadline is kUnavailable.
///
/// The constructor of each connects in the background; a server that cannot be reached is no error
/// there. It throws TlsError if a TLS file cannot be used, another std::runtime_error if the system
/// has no thread or descriptor left.
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
  /// This process's clock.
  Instant now() const override { return wall_now(); }
  void add_health(StoreHealth& health) const override { worker_.monitor().add_to(health); }

 protected:
  /// "the store on redis 127.0.0.1:6379": see RemoteWorker::Options.
  static std::string name_of(std::string kind, const std::vector<Endpoint>& servers) {
    std::string name = "the store on " + std::move(kind);
    for (const Endpoint& server : servers) {
      name += &server == servers.data() ? " " : ", ";
      name += server.text();
    }
    return name;
  }

  /// The derived store calls worker().start(), and in its destructor worker().stop().
  explicit RemoteStore(const RemoteWorker::Options& options) : worker_(options) {}

  RemoteWorker& worker() { return worker_; }

 private:
  /// Throws std::invalid_argument if the store cannot decide these requests together, all or
  /// nothing.
  virtual void check_together(std::span<const Request> requests) const = 0;

  RemoteWorker worker_;
};

}  // namespace sluice

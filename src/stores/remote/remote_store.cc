#include "stores/remote/remote_store.h"

#include <utility>

namespace sluice {

void RemoteStore::decide(std::span<const Request> requests, Instant now,
                         std::span<Decision> decisions) {
  if (!requests.empty()) worker_.decide(requests, Batch::Mode::kEach, now, decisions);
}

Decision RemoteStore::decide_all(std::span<const Request> requests, Instant now) {
  check_together(requests);
  Decision decision;
  worker_.decide(requests, Batch::Mode::kTogether, now, {&decision, 1});
  return decision;
}

void RemoteStore::submit(std::unique_ptr<Batch> batch) {
  if (batch->is_together()) check_together(batch->requests());
  worker_.submit(std::move(batch));
}

}  // namespace sluice

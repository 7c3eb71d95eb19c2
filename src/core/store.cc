#include "core/store.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

namespace sluice {

std::shared_ptr<Space> Space::hold(std::shared_ptr<Space> space,
                                   const std::shared_ptr<Space>& held) {
  struct Holder {
    explicit Holder(std::shared_ptr<Space> of) : space(std::move(of)) { ++space->holders_; }
    ~Holder() { --space->holders_; }
    Holder(const Holder&) = delete;
    Holder& operator=(const Holder&) = delete;

    const std::shared_ptr<Space> space;
  };
  if (space == held) return held;
  auto holder = std::make_shared<Holder>(std::move(space));
  return {holder, holder->space.get()};
}

void Store::submit(std::unique_ptr<Batch> batch) {
  assert(batch->completion != nullptr && batch->outer.store == nullptr);
  try {
    if (batch->is_together()) {
      decide_all(batch->requests(), batch->now(), batch->decisions()[0]);
    } else {
      decide(batch->requests(), batch->now(), batch->decisions());
    }
  } catch (const StoreError& error) {
    batch->set_error(error.what());
  }
  Batch::complete(std::move(batch));
}

// A BatchStore has its own.
void Store::submit_and_wait(std::unique_ptr<Batch> batch) {
  Store::submit(std::move(batch));
}

void BatchStore::decide(std::span<const Request> requests, Instant now,
                        std::span<Decision> decisions) {
  assert(decisions.size() >= requests.size());
  if (!requests.empty()) decide_in_batch(requests, Batch::Mode::kEach, now, decisions);
}

void BatchStore::decide_all(std::span<const Request> requests, Instant now, Decision& decision) {
  decide_in_batch(requests, Batch::Mode::kTogether, now, {&decision, 1});
}

void BatchStore::decide_in_batch(std::span<const Request> requests, Batch::Mode mode, Instant now,
                                 std::span<Decision> decisions) {
  struct {
    std::span<const Request> requests;
    std::span<Decision> decisions;
    std::string error = {};
  } caller{.requests = requests, .decisions = decisions};
  auto batch = std::make_unique<Batch>(requests, mode, now);
  batch->completion = [&caller](const Batch& answered) {
    std::ranges::copy(answered.decisions(), caller.decisions.begin());
    answered.copy_parts(caller.requests);
    caller.error = answered.error();
  };
  submit_and_wait(std::move(batch));
  if (!caller.error.empty()) throw StoreError(caller.error);
}

}  // namespace sluice

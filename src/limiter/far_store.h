#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// A store for tests with threads: memory that answers what is submitted on a thread of its own.
class FarStore final : public Store {
 public:
  /// Loses each `loses_each`-th batch; none, where that is 0.
  explicit FarStore(int loses_each = 0) : loses_each_(loses_each) {}
  ~FarStore() override {
    for (auto& thread : threads_) thread.join();
  }

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    return memory_.open_space(limit);
  }
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override {
    memory_.decide(requests, now, decisions);
    if (loses_each_ == 0 || ++calls_ % loses_each_ != 0) return;
    decisions[0] = {.source = Source::kUnanswered};
    throw StoreError("lost");
  }
  Decision decide_all(std::span<const Request> requests, Instant now) override {
    return memory_.decide_all(requests, now);
  }
  bool answers_later() const override { return true; }
  bool submit_inquiry(Inquiry& inquiry) override {
    const std::lock_guard lock(mutex_);
    threads_.emplace_back([this, &inquiry] {
      try {
        Store::submit_inquiry(inquiry);
      } catch (const StoreError& error) {
        inquiry.fault = error.what();
      }
      inquiry.answered();
    });
    return false;
  }
  Instant now() const override { return memory_.now(); }

 private:
  const int loses_each_;
  MemoryStore memory_;
  std::atomic<int> calls_{0};
  std::mutex mutex_;
  std::vector<std::thread> threads_;
};

}  // namespace sluice

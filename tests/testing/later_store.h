#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "testing/fake_store.h"

namespace sluice {

/// A FakeStore that completes a batch when a test says so, on the test's thread, or when it is
/// destroyed. It holds no spaces itself. A key that begins with "lost" stays undecided, one with
/// "local" is decided in the store's place. Thread-safe.
class LaterStore : public FakeStore {
 public:
  ~LaterStore() override {
    while (waiting() != 0) answer_one();
  }

  bool answers_later() const override { return true; }

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    const std::lock_guard lock(mutex_);
    if (breaks) throw std::runtime_error("the store is broken");
    std::shared_ptr<FakeSpace> space = open_[limit.space].lock();
    if (!space) {
      open_[limit.space] = space = std::make_shared<FakeSpace>();
      space->name = limit.space;
    }
    return space;
  }

  void submit(std::unique_ptr<Batch> batch) override {
    if (batch->is_together() && refuses_all)
      throw std::invalid_argument("these keys are far apart");
    {
      const std::lock_guard lock(mutex_);
      if (!answers_at_once && !fails) {
        waiting_.push_back(std::move(batch));
        came_.notify_all();
        return;
      }
      answer(*batch);
    }
    Batch::complete(std::move(batch));
  }

  /// Completes the batch that waits longest; false where none comes in ten seconds.
  bool answer_one() {
    std::unique_ptr<Batch> batch;
    {
      std::unique_lock lock(mutex_);
      if (!came_.wait_for(lock, kPatience, [&] { return !waiting_.empty(); })) return false;
      batch = std::move(waiting_.front());
      waiting_.pop_front();
      answer(*batch);
    }
    Batch::complete(std::move(batch));
    return true;
  }

  /// False where fewer batches wait after ten seconds.
  bool wait_for(std::size_t batches_waiting) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, kPatience, [&] { return waiting_.size() >= batches_waiting; });
  }

  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  /// Spaces that are held.
  std::size_t held_spaces() {
    const std::lock_guard lock(mutex_);
    std::size_t held = 0;
    for (const auto& [name, space] : open_) held += space.expired() ? 0 : 1;
    return held;
  }

  /// The next batches are answered before submit() returns.
  bool answers_at_once = false;

 private:
  static constexpr std::chrono::seconds kPatience{10};

  void answer(Batch& batch) {
    if (fails) return batch.set_error("the store is away");
    if (batch.is_together()) {
      batch.decisions()[0] = decide_all(batch.requests(), batch.now());
      return;
    }
    decide(batch.requests(), batch.now(), batch.decisions());
    for (std::size_t i = 0; i < batch.requests().size(); ++i) {
      const std::string_view key = batch.requests()[i].key;
      if (key.starts_with("local")) batch.decisions()[i].source = Source::kLocal;
      if (!key.starts_with("lost")) continue;
      batch.decisions()[i] = {.source = Source::kUnavailable};
      batch.set_error("redis://far.example:6379 has not answered within 10ms");
    }
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<std::unique_ptr<Batch>> waiting_;
  std::map<std::string, std::weak_ptr<FakeSpace>> open_;
};

}  // namespace sluice

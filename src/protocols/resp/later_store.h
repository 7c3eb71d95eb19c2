#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "protocols/resp/fake_store.h"

namespace sluice {

/// A FakeStore that answers when a test says so, on the test's thread, and holds no spaces itself.
/// A key that begins with "lost" stays unanswered, one with "local" is answered in the store's
/// place. Thread-safe.
class LaterStore : public FakeStore {
 public:
  bool answers_later() const override { return true; }

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    const std::lock_guard lock(mutex_);
    if (breaks) throw std::bad_alloc();
    std::shared_ptr<FakeSpace> space = open_[limit.space].lock();
    if (!space) {
      open_[limit.space] = space = std::make_shared<FakeSpace>();
      space->name = limit.space;
    }
    return space;
  }

  bool submit_inquiry(Inquiry& inquiry) override {
    const std::lock_guard lock(mutex_);
    if (fails) throw StoreError("the store is away");
    if (answers_at_once) {
      settle(inquiry);
      return true;
    }
    waiting_.push_back(&inquiry);
    came_.notify_all();
    return false;
  }

  /// Answers the inquiry that waits longest; false where none comes in ten seconds.
  bool answer_one() {
    Inquiry* inquiry = nullptr;
    {
      std::unique_lock lock(mutex_);
      if (!came_.wait_for(lock, kPatience, [&] { return !waiting_.empty(); })) return false;
      inquiry = waiting_.front();
      waiting_.pop_front();
      settle(*inquiry);
    }
    inquiry->answered();
    return true;
  }

  /// False where fewer inquiries wait after ten seconds.
  bool wait_for(std::size_t inquiries) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, kPatience, [&] { return waiting_.size() >= inquiries; });
  }

  std::size_t waiting() {
    const std::lock_guard lock(mutex_);
    return waiting_.size();
  }

  /// Spaces that somebody holds.
  std::size_t held_spaces() {
    const std::lock_guard lock(mutex_);
    std::size_t held = 0;
    for (const auto& [name, space] : open_) held += space.expired() ? 0 : 1;
    return held;
  }

  /// The next inquiries are answered before submit() returns.
  bool answers_at_once = false;

 private:
  static constexpr std::chrono::seconds kPatience{10};

  void settle(Inquiry& inquiry) {
    decide(inquiry.requests, inquiry.now, inquiry.decisions);
    for (std::size_t i = 0; i < inquiry.requests.size(); ++i) {
      if (inquiry.requests[i].key.starts_with("local")) {
        inquiry.decisions[i].source = Source::kLocal;
      }
      if (!inquiry.requests[i].key.starts_with("lost")) continue;
      inquiry.decisions[i] = {.source = Source::kUnanswered};
      inquiry.fault = "redis://far.example:6379 has not answered within 10ms";
    }
  }

  std::mutex mutex_;
  std::condition_variable came_;
  std::deque<Inquiry*> waiting_;
  std::map<std::string, std::weak_ptr<FakeSpace>> open_;
};

}  // namespace sluice

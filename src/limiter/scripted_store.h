#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "core/store.h"
#include "stores/memory/memory_store.h"

namespace sluice {

/// A store for tests: memory behind a line that can be cut. It remembers what it was asked, keeps
/// what is submitted until it is told to answer, and runs no thread.
class ScriptedStore final : public Store {
 public:
  struct Asked {
    std::string key;
    Operation operation;
    std::int64_t cost;
    Instant now;

    friend bool operator==(const Asked&, const Asked&) = default;
  };

  /// Which requests it does not answer.
  std::function<bool(const Request&)> loses = [](const Request&) { return false; };
  /// Keeps what is submitted until answer_all().
  bool late = false;
  /// Leaves requests unanswered without a StoreError.
  bool mute = false;
  /// Runs once, after the next requests were decided and before their answers arrive.
  std::function<void()> on_the_way = [] {};
  std::vector<Asked> asked;
  /// How many batches, and groups, it was asked.
  int calls = 0;

  void lose_all() {
    loses = [](const Request&) { return true; };
  }

  std::shared_ptr<Space> open_space(const LimitDefinition& limit) override {
    return memory_.open_space(limit);
  }

  std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                       const LimitDefinition& limit) override {
    return memory_.replace_space(held, limit);
  }

  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override {
    bool lost = false;
    std::function<void()> next;
    {
      const std::lock_guard lock(mutex_);
      ++calls;
      for (std::size_t i = 0; i < requests.size(); ++i) {
        note(requests[i], now);
        if (loses(requests[i])) {
          decisions[i] = {.source = Source::kUnanswered};
          lost = true;
        } else {
          memory_.decide(requests.subspan(i, 1), now, decisions.subspan(i, 1));
        }
      }
      next = std::exchange(on_the_way, [] {});
    }
    next();
    if (lost && !mute) throw StoreError("the line is cut");
  }

  Decision decide_all(std::span<const Request> requests, Instant now) override {
    const std::lock_guard lock(mutex_);
    ++calls;
    bool lost = false;
    for (const Request& request : requests) {
      note(request, now);
      lost = lost || loses(request);
    }
    if (!lost) return memory_.decide_all(requests, now);
    if (!mute) throw StoreError("the line is cut");
    return {.source = Source::kUnanswered};
  }

  bool answers_later() const override { return late; }

  bool submit_inquiry(Inquiry& inquiry) override {
    if (!late) return Store::submit_inquiry(inquiry);
    waiting_.push_back(&inquiry);
    return false;
  }

  /// Answers what was submitted, on this thread.
  void answer_all() {
    for (Inquiry* inquiry : std::exchange(waiting_, {})) {
      try {
        Store::submit_inquiry(*inquiry);
      } catch (const StoreError& error) {
        if (inquiry->together) inquiry->decisions[0] = {.source = Source::kUnanswered};
        inquiry->fault = error.what();
      }
      inquiry->answered();
    }
  }

  Instant now() const override { return memory_.now(); }

 private:
  void note(const Request& request, Instant now) {
    asked.push_back({std::string(request.key), request.operation, request.cost, now});
  }

  MemoryStore memory_;
  std::vector<Inquiry*> waiting_;
  std::mutex mutex_;  // The timekeeper asks, too.
};

}  // namespace sluice

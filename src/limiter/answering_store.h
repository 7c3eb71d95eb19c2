#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/store.h"

namespace sluice {

/// A store for tests of those who wait: it answers as it is told to, when it is told to.
class AnsweringStore final : public Store {
 public:
  struct Asked {
    std::string key;
    Operation operation;
    std::int64_t cost;
    std::int64_t patience_ns;
    PermitId permit;
    Source giver;
  };

  /// It is on another machine: what is submitted waits for answer().
  bool late = false;
  /// What it says to each request; where `late`, when it is answered.
  std::function<Decision(const Request&)> says = [](const Request&) {
    return Decision{.allowed = true};
  };
  /// It can tell of permits that are released elsewhere.
  bool tells = false;
  std::vector<Asked> asked;

  std::shared_ptr<Space> open_space(const LimitDefinition&) override { return space_; }

  void decide(std::span<const Request> requests, Instant, std::span<Decision> decisions) override {
    bool lost = false;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      note(requests[i]);
      decisions[i] = says(requests[i]);
      lost = lost || decisions[i].source == Source::kUnanswered;
    }
    if (lost) throw StoreError("the line is cut");
  }

  Decision decide_all(std::span<const Request>, Instant) override { return {}; }

  bool answers_later() const override { return late; }

  bool submit_inquiry(Inquiry& inquiry) override {
    if (!late) return Store::submit_inquiry(inquiry);
    for (const Request& request : inquiry.requests) note(request);
    under_way_.push_back(&inquiry);
    return false;
  }

  std::size_t under_way() const { return under_way_.size(); }

  /// Answers the inquiry that has waited longest.
  void answer() {
    Inquiry& inquiry = *under_way_.front();
    under_way_.pop_front();
    for (std::size_t i = 0; i < inquiry.requests.size(); ++i) {
      inquiry.decisions[i] = says(inquiry.requests[i]);
      if (inquiry.decisions[i].source == Source::kUnanswered) inquiry.fault = "the line is cut";
    }
    inquiry.answered();
  }

  std::unique_ptr<Watch> watch(const std::shared_ptr<Space>&, std::string_view key,
                               std::function<void()> released) override {
    if (!tells) return nullptr;
    return std::make_unique<Listener>(*this, std::string(key), std::move(released));
  }

  /// The keys that somebody watches.
  std::vector<std::string> watched() const {
    std::vector<std::string> keys;
    for (const Listener* listener : listeners_) keys.push_back(listener->key);
    return keys;
  }

  /// A permit was released elsewhere.
  void tell() {
    for (const Listener* listener : listeners_) listener->released();
  }

  Instant now() const override { return 0; }

 private:
  struct Listener final : Watch {
    Listener(AnsweringStore& in, std::string of, std::function<void()> what)
        : store(in), key(std::move(of)), released(std::move(what)) {
      store.listeners_.push_back(this);
    }
    ~Listener() override { std::erase(store.listeners_, this); }

    AnsweringStore& store;
    std::string key;
    std::function<void()> released;
  };

  void note(const Request& request) {
    asked.push_back({std::string(request.key), request.operation, request.cost, request.patience_ns,
                     request.permit, request.giver});
  }

  std::shared_ptr<Space> space_ = std::make_shared<Space>();
  std::deque<Inquiry*> under_way_;
  std::vector<Listener*> listeners_;
};

}  // namespace sluice

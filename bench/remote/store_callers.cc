#include "remote/store_callers.h"

#include <atomic>
#include <chrono>
#include <semaphore>
#include <span>
#include <stdexcept>
#include <thread>
#include <utility>

#include "core/batch.h"

namespace sluice::bench {

/// What the callers of one run share.
struct StoreCallers::Round {
  std::atomic<std::size_t> busy{0};
  std::atomic<bool> failed{false};
  std::string error_text;  // Written by the first that fails.
  std::binary_semaphore over{0};

  void fail(std::string sentence) {
    if (!failed.exchange(true)) error_text = std::move(sentence);
  }
  void leave() {
    if (busy.fetch_sub(1) == 1) over.release();
  }
};

class StoreCallers::Caller {
 public:
  explicit Caller(StoreCallers& all) : store_(*all.store_), round_(*all.round_), keys_(all.keys_) {
    request_.limit = &all.limit_.definition();
    request_.space = all.space_.get();
  }

  void start(std::uint64_t decisions_wanted) {
    left_ = decisions_wanted;
    ask();
  }

 private:
  void ask() {
    request_.key = keys_.next();
    auto batch = std::make_unique<Batch>(std::span(&request_, 1));
    batch->completion = [this](Batch& answered) {
      if (take_answer(answered)) ask();
    };
    store_.submit(std::move(batch));
  }

  /// Whether the caller goes on.
  bool take_answer(const Batch& batch) {
    const Decision& decision = batch.decisions()[0];
    const bool right = decision.allowed && decision.source == Source::kStore;
    if (!right) {
      round_.fail(batch.error().empty() ? "a request was not admitted by the store"
                                        : batch.error());
    }
    if (right && --left_ > 0) return true;
    round_.leave();
    return false;
  }

  Store& store_;
  Round& round_;
  KeyCursor& keys_;
  Request request_;
  std::uint64_t left_ = 0;
};

StoreCallers::StoreCallers(std::shared_ptr<Store> store, const Limit& limit, const KeyTape& tape,
                           std::size_t callers)
    : round_(std::make_unique<Round>()),
      limit_(limit),
      keys_(tape),
      store_(std::move(store)),
      space_(store_->open_space(limit_.definition())) {
  for (std::size_t i = 0; i < callers; ++i) {
    callers_.push_back(std::make_unique<Caller>(*this));
  }
}

StoreCallers::~StoreCallers() = default;

void StoreCallers::run(std::uint64_t decisions_per_caller) {
  round_->busy = callers_.size();
  for (const auto& caller : callers_) caller->start(decisions_per_caller);
  round_->over.acquire();
  if (round_->failed) throw std::runtime_error(round_->error_text);
}

void await_store(Store& store, const Limit& limit) {
  const auto space = store.open_space(limit.definition());
  const Request peek{
      .limit = &limit.definition(), .space = space.get(), .key = "is it there?", .cost = 0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  while (true) {
    std::string error_text = "the store does not answer";
    Decision decision;
    try {
      store.decide({&peek, 1}, kStoreTime, {&decision, 1});
    } catch (const StoreError& error) {
      error_text = error.what();
    }
    if (decision.source == Source::kStore && decision.allowed) return;
    if (std::chrono::steady_clock::now() > deadline) throw std::runtime_error(error_text);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace sluice::bench

#include "testing/scripted_store.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>

#include "algorithms/check_together.h"
#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

constexpr std::chrono::seconds kMostWait{10};

bool is_open(const Decision& decision) {
  return decision.source == Source::kUnavailable;
}

// The requests that the outer store, if there is one, has not answered.
std::vector<Request> open_requests(const Batch& batch) {
  std::vector<Request> open;
  for (std::size_t i = 0; i < batch.requests().size(); ++i) {
    if (is_open(batch.decisions()[batch.is_together() ? 0 : i])) {
      open.push_back(batch.requests()[i]);
    }
  }
  return open;
}

}  // namespace

class ScriptedStore::Listener final {
 public:
  Listener(ScriptedStore& store, Watched what, std::function<void()> to_tell)
      : watched(std::move(what)), released(std::move(to_tell)), store_(store) {
    const std::lock_guard lock(store_.mutex_);
    store_.listeners_.push_back(this);
  }
  ~Listener() {
    const std::lock_guard lock(store_.mutex_);
    std::erase(store_.listeners_, this);
  }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  const Watched watched;
  const std::function<void()> released;

 private:
  ScriptedStore& store_;
};

ScriptedStore::~ScriptedStore() {
  for (std::thread& thread : threads_) thread.join();
  lose_all();
  says = nullptr;
  answer_all();
}

void ScriptedStore::note(std::span<const Request> requests, Instant now) {
  const std::lock_guard lock(mutex_);
  batches.push_back(requests.size());
  for (const Request& request : requests) {
    asked.push_back({.key = std::string(request.key),
                     .operation = request.operation,
                     .cost = request.cost,
                     .patience_ns = request.patience_ns,
                     .most_denial_age_ns = request.most_denial_age_ns,
                     .permit = request.permit,
                     .giver = request.giver,
                     .is_reclaim = request.is_reclaim,
                     .now = now});
  }
}

// The answer to one request, or to requests that are decided together.
Decision ScriptedStore::answer_to(std::span<const Request> requests, bool together, Instant now) {
  if (loses && std::ranges::any_of(requests, std::cref(loses))) {
    return {.source = Source::kUnavailable};
  }
  if (const auto said = says ? says(requests[0]) : std::nullopt) return *said;
  if (together) return memory_.decide_all(requests, now);
  Decision decision;
  memory_.decide(requests, now, {&decision, 1});
  return decision;
}

// False if a request is lost. The answers are told to the batch.
bool ScriptedStore::carry_out(std::span<const Request> requests, bool together, Instant now,
                              std::span<Decision> decisions, Batch* batch) {
  std::unique_lock lock(mutex_);
  if (now == kStoreTime && clock) now = *clock;
  bool lost = false;
  std::vector<std::size_t> made;
  for (std::size_t i = 0; i < decisions.size(); ++i) {
    if (!is_open(decisions[i])) continue;
    decisions[i] = answer_to(together ? requests : requests.subspan(i, 1), together, now);
    lost = lost || is_open(decisions[i]);
    made.push_back(i);
  }
  const auto next = std::exchange(on_the_way, nullptr);
  lock.unlock();
  for (const std::size_t i : made) {
    if (next && i == made.back()) next();
    if (batch == nullptr || is_open(decisions[i])) continue;
    const std::lock_guard reply_lock(reply_mutex_);
    batch->on_reply(i, arrived.value_or(std::chrono::steady_clock::now()));
  }
  return !lost;
}

void ScriptedStore::carry_out(Batch& batch) {
  if (!carry_out(batch.requests(), batch.is_together(), batch.now(), batch.decisions(), &batch)) {
    batch.set_error(error);
  }
}

void ScriptedStore::decide(std::span<const Request> requests, Instant now,
                           std::span<Decision> decisions) {
  note(requests, now);
  decisions = decisions.first(requests.size());
  std::ranges::fill(decisions, Decision{.source = Source::kUnavailable});
  if (!carry_out(requests, false, now, decisions)) throw StoreError(error);
}

void ScriptedStore::decide_all(std::span<const Request> requests, Instant now, Decision& decision) {
  check_together(requests);
  note(requests, now);
  decision = {.source = Source::kUnavailable};
  if (!carry_out(requests, true, now, {&decision, 1})) throw StoreError(error);
}

void ScriptedStore::submit_and_wait(std::unique_ptr<Batch> batch) {
  if (batch->is_together()) check_together(batch->requests());
  note(open_requests(*batch), batch->now());
  carry_out(*batch);
  Batch::complete(std::move(batch));
}

void ScriptedStore::submit(std::unique_ptr<Batch> batch) {
  if (answers == Answers::kAtOnce) return submit_and_wait(std::move(batch));
  if (batch->is_together()) check_together(batch->requests());
  note(open_requests(*batch), batch->now());
  const std::lock_guard lock(mutex_);
  if (answers == Answers::kWhenTold) {
    pending_.push_back(std::move(batch));
    submitted_.notify_all();
    return;
  }
  threads_.emplace_back([this, own = std::move(batch)]() mutable {
    carry_out(*own);
    Batch::complete(std::move(own));
  });
}

bool ScriptedStore::answer() {
  std::unique_ptr<Batch> batch;
  {
    std::unique_lock lock(mutex_);
    if (!submitted_.wait_for(lock, kMostWait, [&] { return !pending_.empty(); })) return false;
    batch = std::move(pending_.front());
    pending_.pop_front();
  }
  carry_out(*batch);
  Batch::complete(std::move(batch));
  return true;
}

void ScriptedStore::answer_all() {
  for (std::size_t left = pending(); left > 0; --left) answer();
}

void ScriptedStore::be_late(std::string_view key) {
  std::unique_lock lock(mutex_);
  std::unique_ptr<Batch> batch = std::move(pending_.back());
  pending_.pop_back();
  const Instant now = batch->now() == kStoreTime && clock ? *clock : batch->now();
  for (std::size_t i = 0; i < batch->decisions().size(); ++i) {
    if (!is_open(batch->decisions()[i])) continue;
    const bool is_late = key.empty() || batch->requests()[i].key == key;
    batch->decisions()[i] = is_late ? Decision{.source = Source::kUnavailable, .taken = kTakenLater}
                                    : answer_to(batch->requests().subspan(i, 1), false, now);
    if (!is_open(batch->decisions()[i]))
      batch->on_reply(i, arrived.value_or(std::chrono::steady_clock::now()));
  }
  batch->set_error("the store is late");
  lock.unlock();
  std::unique_ptr<Batch> later = Batch::complete(std::move(batch));
  lock.lock();
  if (later) pending_.push_back(std::move(later));
}

std::size_t ScriptedStore::pending() const {
  const std::lock_guard lock(mutex_);
  return pending_.size();
}

bool ScriptedStore::await_pending(std::size_t count) const {
  std::unique_lock lock(mutex_);
  return submitted_.wait_for(lock, kMostWait, [&] { return pending_.size() >= count; });
}

std::shared_ptr<Space> ScriptedStore::replace_space(const std::shared_ptr<Space>& held,
                                                    const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  if (breaks != nullptr) std::rethrow_exception(breaks);
  if (refuses_spaces && !spaces_.contains(limit.space)) {
    throw StoreError("no room for another space");
  }
  auto space = memory_.replace_space(held, limit);
  spaces_.emplace(limit.space, space);
  ++opened;
  return space;
}

std::size_t ScriptedStore::held_spaces() const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(
      std::ranges::count_if(spaces_, [](const auto& row) { return !row.second.expired(); }));
}

Watch ScriptedStore::watch(const std::shared_ptr<Space>& space, std::string_view key,
                           std::function<void()> released) {
  if (!tells) return nullptr;
  return std::make_shared<Listener>(*this, Watched{space, std::string(key)}, std::move(released));
}

std::vector<ScriptedStore::Watched> ScriptedStore::watched() const {
  const std::lock_guard lock(mutex_);
  std::vector<Watched> all;
  for (const Listener* listener : listeners_) all.push_back(listener->watched);
  return all;
}

void ScriptedStore::tell() {
  const std::lock_guard lock(mutex_);
  for (const Listener* listener : listeners_) listener->released();
}

}  // namespace sluice

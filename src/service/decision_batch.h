#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/block.h"
#include "core/store.h"
#include "service/answers.h"
#include "service/named_limits.h"
#include "service/outcome_counters.h"

namespace sluice {

/// The answers of a store that answers later. The connection's handler and the batch's completion
/// each hold a share, so either may be destroyed first. If the connection was closed, the answers
/// are dropped.
class PendingAnswers {
 public:
  PendingAnswers(Answers answers, std::function<void()> wake)
      : answers_(std::move(answers)), wake_(std::move(wake)) {}

  /// May be called from any thread.
  bool is_ready() const { return state_.load(std::memory_order_acquire) == State::kReady; }
  /// REQUIRES: is_ready().
  const Answers& get() const {
    assert(is_ready());
    return answers_;
  }

  /// Takes the store's decisions, and calls `wake` if the handler waits. Called once, by the
  /// batch's completion.
  void receive(const Batch& batch);
  /// As receive(), for claims that are decided together.
  void receive(Answers&& answers);
  /// Called by the handler's thread: from now on the handler waits, and receive() calls `wake`.
  /// Returns false if the answers are ready already.
  bool wait();

 private:
  void complete();

  enum class State : std::uint8_t { kSubmitted, kWaiting, kReady };

  std::atomic<State> state_ = State::kSubmitted;
  const std::chrono::steady_clock::time_point asked_at_ = std::chrono::steady_clock::now();
  // Used by the completion only until the state is kReady, then by the handler's thread only.
  Answers answers_;
  std::function<void()> wake_;
};

/// Up to kMaxRequests requests of one read of a connection, which are given to the store at once.
/// The connections of a serving thread use the same object in turn: each begins it by
/// ThreadContext::begin_batch(), calls add() and other_replies() in the order of its commands, then
/// ask(). Not thread-safe.
///
/// If the store answers at once (memory), it reads the requests as they were added: no key is
/// copied, unless they are decided together. If it answers later (Redis, Memcached), it gets a
/// Batch, which owns copies.
class DecisionBatch {
 public:
  static constexpr std::size_t kMaxRequests = 64;
  /// A request for which the memory store opens a space counts as this many: to open one can take
  /// as long as so many decisions.
  static constexpr std::size_t kOpening = 16;

  /// `counters` outlive this.
  DecisionBatch(std::shared_ptr<Store> store, OutcomeCounters& counters)
      : store_(std::move(store)), answers_later_(store_->answers_later()), counters_(counters) {}

  /// How much of kMaxRequests a request uses up. `opens_space`: to find its limit, the store was
  /// asked to open a space. (That costs a store on another machine nothing. A list of limits may
  /// open several, but is a batch of its own.)
  std::size_t weight(bool opens_space) const {
    return opens_space && !answers_later_ ? kOpening : 1;
  }

  /// Begins with no requests; drops those of an earlier read that an exception ended.
  void clear();

  /// Adds a request about a key of this limit, as the limit's override for the key says, or, in a
  /// dry run, so that it is not denied. Sets the request's limit and space, and the slot's limit.
  /// The key must stay valid until ask() returns. REQUIRES: fewer than kMaxRequests added.
  void add(const std::shared_ptr<const RegisteredLimit>& limit, Request request, ReplySlot slot);

  /// Adds a request whose limit and space are set, without overrides and dry runs: for limits whose
  /// numbers a command brings. The key, the limit and the space must stay valid until ask()
  /// returns; `owner` is a share of the object that owns the limit and the space, which a Batch
  /// keeps. REQUIRES: as add().
  template <class Owner>
  void add_bound(const Request& request, ReplySlot slot, const std::shared_ptr<Owner>& owner) {
    assert(size_ < kMaxRequests);
    push_slot(request, slot);
    requests_[size_++] = request;
    if (answers_later_ && (owners_.empty() || owners_.back() != owner)) owners_.push_back(owner);
  }

  bool is_empty() const { return answers_.slots.empty(); }

  /// Whether a request has been added, the last one has this tag, and no other reply was written
  /// after it.
  bool ends_with(std::uint32_t tag) const {
    return !is_empty() && answers_.slots.back().tag == tag &&
           answers_.slots.back().others_before == answers_.other_replies.size();
  }

  /// Makes the store decide the added requests together (see Claims): it admits all or none.
  /// Nothing else is added to this batch. REQUIRES: 1 to kMaxTogether requests have been added;
  /// each takes.
  void ask_together() {
    assert(!is_empty() && answers_.slots.size() <= kMaxTogether);
    answers_.together.emplace();
  }

  /// Adds a copy of the last request, with another key. REQUIRES: as add(); ends_with() that
  /// request's tag.
  void repeat(std::string_view key);

  /// Where to append a reply that is not a decision: `output` itself, or, if requests were added
  /// before it, a buffer whose bytes ask() puts between their replies.
  std::string& other_replies(std::string& output) {
    return is_empty() ? output : answers_.other_replies;
  }

  /// Lets the store decide all requests, in order. If a store elsewhere does not answer a request
  /// for a permit, this releases the permit there (see reclaim()). If it returns null, all replies
  /// have been appended to `output`. Otherwise the store answers later: its worker thread calls
  /// `wake` when the result is_ready(), and the handler then writes the replies with
  /// Answers::write().
  std::shared_ptr<PendingAnswers> ask(ReplyWriter& writer, const std::function<void()>& wake,
                                      std::string& output);

 private:
  void push_slot(const Request& request, ReplySlot& slot) {
    // If the store does not answer, this process may decide takes, and the return of what it has
    // granted itself. For any other change of a key, such a reply would wrongly say that the store
    // has changed it.
    const bool may_take =
        request.operation == Operation::kTake || request.operation == Operation::kTakeUpTo;
    slot.is_counted = can_be_denied(request.operation, request.cost);
    slot.may_be_local = slot.may_be_local || may_take || request.giver != Source::kStore;
    slot.others_before = static_cast<std::uint32_t>(answers_.other_replies.size());
    answers_.slots.push_back(slot);
  }
  /// A request after whose answer something is left to do, and its limit: one for a permit, or a
  /// reset.
  struct Followed {
    std::size_t request = 0;
    std::shared_ptr<const BoundLimit> limit;
  };

  static void follow_up(const std::shared_ptr<Store>& store, const std::vector<Followed>& followed,
                        std::span<const Request> requests, std::span<const Decision> decisions);

  void decide();
  void decide_claims();
  void add_asked(const std::shared_ptr<const RegisteredLimit>& owner, const BoundLimit& limit,
                 Request request, ReplySlot slot);
  void add_special(const std::shared_ptr<const RegisteredLimit>& limit, const Request& request,
                   ReplySlot slot);
  std::span<Request> requests() { return std::span(requests_).first(size_); }
  std::shared_ptr<PendingAnswers> submit(const std::function<void()>& wake);
  std::shared_ptr<PendingAnswers> submit_claims(const std::function<void()>& wake);

  const std::shared_ptr<Store> store_;
  const bool answers_later_;
  OutcomeCounters& counters_;
  std::size_t size_ = 0;
  std::array<Request, kMaxRequests> requests_;
  Answers answers_;
  std::vector<std::shared_ptr<const void>> owners_;  // Empty where the store answers at once.
  std::vector<Followed> followed_;
};

}  // namespace sluice

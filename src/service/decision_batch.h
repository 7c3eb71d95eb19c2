#pragma once

#include <array>
#include <atomic>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/store.h"
#include "service/outcome_counters.h"

namespace sluice {

/// What is known of a request until its reply is written.
struct ReplySlot {
  /// Chosen by the protocol, and known to it alone: how the reply is written, for example.
  std::uint32_t tag = 0;
  /// RegisteredLimit::number, or 0: where the decision is counted.
  std::uint16_t limit = 0;
  // Set by DecisionBatch.
  Operation operation = Operation::kTake;
  bool is_counted = false;
  std::size_t others_before = 0;  // Bytes of Answers::other_replies.
};

/// How a protocol writes replies.
class ReplyWriter {
 public:
  /// Appends the replies to these decisions, in order. REQUIRES: as many slots as decisions.
  virtual void write_decisions(std::span<const ReplySlot> slots,
                               std::span<const Decision> decisions, std::string& output) = 0;
  /// Appends the reply to a request that the store did not decide; `why` is a sentence.
  virtual void write_unavailable(const ReplySlot& slot, std::string_view why,
                                 std::string& output) = 0;

 protected:
  ~ReplyWriter() = default;
};

/// The answers to a batch, and the replies that are no decisions, among which theirs belong.
struct Answers {
  std::vector<ReplySlot> slots;
  std::vector<Decision> decisions;  // At least as many as slots.
  std::string other_replies;
  std::string error;  // Why decisions are missing.

  /// Appends all replies in order, and counts the decisions.
  void write(ReplyWriter& writer, OutcomeCounters& counters, std::string& output) const;
};

/// The answers of a store that answers later. The connection's handler and the store each hold a
/// share: whichever goes first, the other's stays valid, and the answers to a connection that has
/// gone are dropped.
class PendingAnswers {
 public:
  PendingAnswers(Answers answers, std::function<void()> wake)
      : answers_(std::move(answers)), wake_(std::move(wake)) {}

  /// From any thread.
  bool is_ready() const { return state_.load(std::memory_order_acquire) == State::kReady; }
  /// REQUIRES: is_ready().
  const Answers& get() const {
    assert(is_ready());
    return answers_;
  }

  /// Takes the store's decisions, and wakes the handler where it waits. Called once.
  void receive(const Batch& batch);
  /// The handler begins to wait. False where the answers are ready.
  bool wait();

 private:
  enum class State : std::uint8_t { kSubmitted, kWaiting, kReady };

  std::atomic<State> state_ = State::kSubmitted;
  // Belong to the store until the state is kReady.
  Answers answers_;
  std::function<void()> wake_;
};

/// The decisions that one read of a connection asks for. The connections of a thread use it in
/// turn: each calls clear(), then add() and other_replies() in the order of its requests, then
/// ask(). Not thread-safe.
///
/// A store that answers at once is given the requests as they were added, so that no key is copied;
/// one that answers later is given copies, which it owns.
class DecisionBatch {
 public:
  static constexpr std::size_t kMaxRequests = 64;

  /// `counters` outlive this.
  DecisionBatch(std::shared_ptr<Store> store, OutcomeCounters& counters)
      : store_(std::move(store)), answers_later_(store_->answers_later()), counters_(counters) {}

  /// Begins another read: forgets what is left of one that an exception has ended.
  void clear();

  /// Asks for a decision. The key, the limit and the space stay where they are until ask(); `owner`
  /// is what keeps the limit and the space. REQUIRES: fewer than kMaxRequests added.
  template <class Owner>
  void add(const Request& request, ReplySlot slot, const std::shared_ptr<Owner>& owner) {
    assert(size_ < kMaxRequests);
    slot.operation = request.operation;
    slot.is_counted = request.operation == Operation::kTake && request.cost > 0;
    slot.others_before = answers_.other_replies.size();
    requests_[size_++] = request;
    answers_.slots.push_back(slot);
    if (answers_later_ && (owners_.empty() || owners_.back() != owner)) owners_.push_back(owner);
  }

  /// Whether the last that was added has this tag, and is behind all other replies.
  bool ends_with(std::uint32_t tag) const {
    return size_ != 0 && answers_.slots.back().tag == tag &&
           answers_.slots.back().others_before == answers_.other_replies.size();
  }

  /// Adds the last request again, for another key. REQUIRES: as add(), and ends_with() its tag.
  void repeat(std::string_view key);

  /// Where a reply that is no decision goes: into `output`, or behind the decisions added so far.
  std::string& other_replies(std::string& output) {
    return size_ == 0 ? output : answers_.other_replies;
  }

  /// Lets the store decide. Null: all replies have been appended to `output`. Otherwise they come
  /// later: `wake` is called, on the store's worker thread, when PendingAnswers::is_ready().
  std::shared_ptr<PendingAnswers> ask(ReplyWriter& writer, const std::function<void()>& wake,
                                      std::string& output);

 private:
  void decide();
  std::shared_ptr<PendingAnswers> submit(const std::function<void()>& wake);

  const std::shared_ptr<Store> store_;
  const bool answers_later_;
  OutcomeCounters& counters_;
  std::size_t size_ = 0;
  std::array<Request, kMaxRequests> requests_;
  Answers answers_;
  std::vector<std::shared_ptr<const void>> owners_;  // Empty where the store answers at once.
};

}  // namespace sluice

#pragma once

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/algorithm.h"
#include "core/arithmetic.h"
#include "core/hash_secret.h"
#include "core/instant.h"
#include "core/operation.h"
#include "sluice/decision.h"

namespace sluice {

class Space;
struct LimitDefinition;

/// One question to a store, for every protocol, the library and replay. The objects that it refers
/// to outlive the call, or a Batch that has copied it keeps them alive.
struct Request {
  /// The limit. `space` was opened with it, or with a limit that differs only in numbers that leave
  /// states readable: the key then keeps its state, and this limit decides.
  const LimitDefinition* limit = nullptr;
  Space* space = nullptr;
  std::string_view key = {};
  Operation operation = Operation::kTake;
  /// At least 0.
  std::int64_t cost = 1;
  /// kTake: the longest delay the caller accepts, in nanoseconds, or kDefaultPatience.
  std::int64_t patience_ns = kDefaultPatience;
  /// kTake: how old a denial may be, at most, that is repeated without asking the store.
  std::int64_t most_denial_age_ns = kMaxInt64;
  /// kBlock: 1 to kMaxDurationNs.
  std::int64_t duration_ns = 0;
  /// For limits of permits. kTake: an id that was not used before.
  PermitId permit = 0;
  /// kRenew, kRelease, kRefund: the source of the decision that granted the units or the permit,
  /// which is asked. If that is the store and it does not answer, the failure policy answers, and
  /// Decision::source is another one.
  Source giver = Source::kStore;
  /// kRelease: the store may have granted the permit without an answer, so only the store is asked:
  /// no failure policy answers.
  bool is_reclaim = false;
  /// kRefund: the parts of the limit that get nothing back, since they do not count these units any
  /// more: bit i stands for part i.
  std::uint8_t uncounted_parts = 0;
  /// Whether `parts` have no meaning if the request is denied: then a denial may be repeated
  /// without asking the store.
  bool parts_if_allowed = false;
  /// Receives the decisions that are combined into the answer, in the order in which
  /// Decision::binding counts them; empty if the caller does not need them. For a request that is
  /// asked alone, or in a list of one, these are the decisions of the limit's parts; for one that
  /// is asked together with others, its own decision, or that and then those of the limit's parts.
  /// If all admit, they describe the state after the charge; if one denies, the state as it is,
  /// with `allowed` and `retry_after` for the cost of the request. If the answer is kUnavailable,
  /// they have no meaning.
  std::span<Decision> parts = {};
};

/// As an instant: the store decides by its own clock.
inline constexpr Instant kStoreTime = -1;

/// Requests that are given to a store together, and their decisions. It owns what they refer to: it
/// copies the keys, and holds shares of the objects that keep the limits and spaces alive. A store
/// on another machine takes the batch over, so that the caller may go away at any time.
///
/// Belongs to one thread at a time: to the caller until Store::submit(), then to the store.
class Batch final {
 public:
  /// Called once, when all decisions are made: within submit() or on the store's worker thread;
  /// after submit_and_wait(), on any thread that calls the store; or on the one that destroys the
  /// store. It must not throw or block, since other callers wait for that thread. The batch may
  /// be destroyed when it returns. (A store may want decisions of parts that the caller does not:
  /// then Request::parts is not empty.)
  using Completion = std::function<void(Batch&)>;

  /// Whether each request is decided by itself, or all are admitted or none.
  enum class Mode : std::uint8_t { kEach, kTogether };

  /// Copies the requests and their keys. All are asked at the instant `now`, or at the store's own
  /// time. REQUIRES: at least one request.
  explicit Batch(std::span<const Request> requests, Mode mode = Mode::kEach,
                 Instant now = kStoreTime);
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::span<Request> requests() { return {requests_.data(), requests_.size()}; }
  std::span<const Request> requests() const { return {requests_.data(), requests_.size()}; }
  /// decisions()[i] answers requests()[i]; if all are asked together, there is one decision. Each
  /// is kUnavailable until it is made. An outer store may have made some before it passes the batch
  /// on: the inner store, one on another machine, makes only the others.
  std::span<Decision> decisions() { return {decisions_.data(), decisions_.size()}; }
  std::span<const Decision> decisions() const { return {decisions_.data(), decisions_.size()}; }
  Mode mode() const { return mode_; }
  bool is_together() const { return mode_ == Mode::kTogether; }
  /// Whether several requests have one decision: then `parts` of each begin with its own.
  bool is_group() const { return is_together() && requests_.size() > 1; }
  /// Those that decisions()[i] answers.
  std::span<Request> requests_of(std::size_t i) {
    return is_together() ? requests() : requests().subspan(i, 1);
  }
  /// The decision of requests_of(i)[j] itself.
  const Decision& own_decision(std::size_t i, std::size_t j) const {
    return is_group() ? requests_[j].parts[0] : decisions_[i];
  }
  Instant now() const { return now_; }

  /// Copies the decisions of parts to `to`, the requests that this batch has copied.
  void copy_parts(std::span<const Request> to) const {
    assert(to.size() == requests_.size());
    for (std::size_t i = 0; i < to.size(); ++i) {
      std::ranges::copy_n(requests_[i].parts.begin(), std::ssize(to[i].parts), to[i].parts.begin());
    }
  }

  using Owners = boost::container::small_vector<std::shared_ptr<const void>, 1>;
  /// Holds a share of `owner`, and so keeps the objects that requests refer to, until the
  /// completion has run.
  void keep(std::shared_ptr<const void> owner) { owners_.push_back(std::move(owner)); }
  /// Holds these in place of the others.
  void keep_only(Owners owners) { owners_ = std::move(owners); }

  /// Gives each request room for the decisions of so many parts, in place of what it has.
  template <class CountOf>
  void keep_parts(CountOf count_of) {
    std::size_t count = 0;
    for (const Request& request : requests_) count += count_of(request);
    parts_.resize(count, Decision{.source = Source::kUnavailable});
    std::span<Decision> rest = parts_;
    for (Request& request : requests_) {
      request.parts = rest.first(count_of(request));
      rest = rest.subspan(request.parts.size());
    }
  }

  /// Why a decision is kUnavailable: one sentence, the first reason. Empty if all are made.
  const std::string& error() const { return error_; }
  /// Says why a decision cannot be made. Only the first reason is kept.
  void set_error(std::string_view why) {
    if (error_.empty()) error_ = why;
  }
  /// Forgets the reason: the decisions have been made after all.
  void clear_error() { error_.clear(); }

  /// Set by the caller before submit().
  Completion completion;

  /// A store around another one (the inner store), to which it passes batches on, or a part of such
  /// a store. It receives the answers to these batches in place of their completions.
  class OuterStore {
   public:
    /// The inner store has answered requests_of(i). Called for each answer as it arrives, so for
    /// each key in the order in which the inner store has decided (but for the keys of a group, and
    /// for late answers, which may come by another connection), by one thread at a time. `arrived`:
    /// when it did.
    virtual void on_reply(Batch& batch, std::size_t i,
                          std::chrono::steady_clock::time_point arrived) noexcept = 0;
    /// The inner store has made all decisions. Calls the completion, if the batch has one. Returns
    /// whether the batch awaits the answers that may still come, to the requests whose decisions
    /// were kTakenLater: it then owns all that these refer to. Once they have come, or will not,
    /// this is called again.
    virtual bool on_answered(Batch& batch) = 0;

   protected:
    ~OuterStore() = default;
  };

  /// What an outer store remembers of a request.
  struct Subject {
    Space* space = nullptr;  ///< Its own. Null if the outer store has made the decision.
    KeyHash key = {};        ///< The hash of the key.
    /// The units that the outer store itself has admitted, and the entry in which it counts them,
    /// until the inner store says what became of the request.
    std::int64_t admitted = 0;
    std::uint64_t entry = 0;
  };

  /// What the outer store awaits answers for.
  enum class Stage : std::uint8_t {
    kAsked,   ///< For the caller.
    kLate,    ///< The caller has been answered: to remember them.
    kCharge,  ///< To charge what it has admitted itself. There is no caller.
  };

  /// Set by an outer store before it passes the batch on: itself, and what it needs when the batch
  /// is answered. It lies here so that the outer store allocates nothing for it.
  struct {
    OuterStore* store = nullptr;
    Stage stage = Stage::kAsked;
    boost::container::small_vector<Subject, 1> subjects;
    /// A lower bound of the time at which the batch is sent.
    Instant sent = 0;
  } outer;

  /// Called by the store when it has made decisions()[i], unless that is kUnavailable: tells the
  /// outer store, if there is one.
  void on_reply(std::size_t i, std::chrono::steady_clock::time_point arrived) {
    if (outer.store != nullptr) outer.store->on_reply(*this, i, arrived);
  }

  /// Called by the store when all decisions are made: calls the completion, or the outer store if
  /// there is one. Destroys the batch, or returns it if late answers to it are awaited
  /// (OuterStore::on_answered()): the store then calls this again when they have come, or will not
  /// come.
  static std::unique_ptr<Batch> complete(std::unique_ptr<Batch> batch) {
    if (batch->outer.store != nullptr) {
      return batch->outer.store->on_answered(*batch) ? std::move(batch) : nullptr;
    }
    assert(batch->completion != nullptr);
    batch->completion(*batch);
    return nullptr;
  }

 private:
  const Mode mode_;
  const Instant now_;
  boost::container::small_vector<Request, 1> requests_;
  boost::container::small_vector<Decision, 1> decisions_;
  std::vector<Decision> parts_;
  Owners owners_;
  boost::container::small_vector<char, 48> keys_;
  std::string error_;
};

}  // namespace sluice

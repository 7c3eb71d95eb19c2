#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "fallback/fallback_space.h"
#include "fallback/fallback_store.h"

namespace sluice {
namespace {

// How many completions the calling thread runs now, one within the other.
constinit thread_local int completing = 0;

// The decision that requests_of(i)[j] counts: its own. Null if it would have admitted the request,
// and another one has denied it.
const Decision* counted_decision(const Batch& batch, std::size_t i, std::size_t j) {
  const Decision& whole = batch.decisions()[i];
  if (whole.source == Source::kUnavailable) return &whole;
  const Decision& own = batch.own_decision(i, j);
  return own.allowed && !whole.allowed ? nullptr : &own;
}

}  // namespace

/// Completes a batch: lets the policy decide what the inner store has not answered.
class FallbackStore::Settling {
 public:
  /// Both outlive this. REQUIRES: the inner store has made all decisions of the batch.
  Settling(FallbackStore& store, Batch& batch)
      : store_(store),
        batch_(batch),
        subjects_(batch.outer.subjects.data(), batch.outer.subjects.size()) {}

  /// Where an allocation fails, the process ends: what was admitted would be noted by half.
  void run() noexcept {
    for (std::size_t i = 0; i < batch_.decisions().size(); ++i) {
      if (subjects_[i].space == nullptr) continue;  // The inner store was not asked.
      const std::span<Request> requests = batch_.requests_of(i);
      const Subjects subjects = subjects_.subspan(i, requests.size());
      Decision& decision = batch_.decisions()[i];
      if (decision.source == Source::kUnavailable) {
        if (decision.taken == kTakenLater) await(i, requests);
        settle_lost(i, requests, decision);
        for (std::size_t j = 0; j < requests.size(); ++j) {
          if (const Decision* const own = counted_decision(batch_, i, j)) {
            FallbackSpace::of(subjects[j]).count(requests[j], *own);
          }
        }
      } else {
        note_answered(subjects, requests, decision);
      }
    }
    const bool raises = lost_ > 0 && policy() == OnFailure::kRaise;
    if (raises) batch_.set_error("the store did not answer");
    if (!raises && !is_left_open_) batch_.clear_error();
    count(raises);
    if (answered_ && !store_.charges_.is_empty()) store_.charge_back(admitted_, batch_.now());
  }

  /// The completion has run, which may have destroyed the store if no answer is awaited. Leaves the
  /// batch to the late requests. Returns whether there are any.
  bool await_late() {
    if (late_.empty()) return false;
    batch_.keep_only(std::move(late_owners_));
    batch_.outer.stage = Batch::Stage::kLate;
    for (const std::size_t i : late_) {
      batch_.decisions()[i] = {.source = Source::kUnavailable, .taken = kTakenLater};
      for (std::size_t j = 0; j < batch_.requests_of(i).size(); ++j) {
        batch_.requests()[i + j].space = FallbackSpace::of(subjects_[i + j]).inner.get();
      }
    }
    return true;
  }

 private:
  using Subjects = std::span<Subject>;
  using Requests = std::span<const Request>;

  // on_reply() has recorded and counted it.
  void note_answered(Subjects subjects, Requests requests, const Decision& decision) {
    answered_ = true;
    if (!decision.allowed || store_.charges_.is_empty()) return;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      if (can_be_denied(request.operation, request.cost) && !lends(*request.limit)) {
        admitted_.push_back(name_of(subjects[i]));
      }
    }
  }

  void settle_lost(std::size_t i, Requests requests, Decision& decision) {
    const Request& first = requests[0];
    // It is not known whether the inner store granted this permit, so only the inner store is asked
    // to release it: a permit with that id in the local states would be another one.
    if (first.is_reclaim) {
      is_left_open_ = true;
      if (decision.taken == kTakenLater) decision.taken = kTakenUnknown;
      return;
    }
    // The store may have carried it out, as record() says.
    if (store_.answers_ != nullptr && !lends(*first.limit)) {
      store_.ask_again_after(first, name_of(subjects_[i]));
    }
    const bool may_be_granted = may_be_executed(decision) && lends(*first.limit) &&
                                can_be_denied(first.operation, first.cost);
    if (lost_++ == 0) lost_at_ = store_.decided_at(batch_.now());
    answer_by_policy(i, requests, decision);
    // So the caller knows that the inner store may count the permit, and can release it there.
    if (may_be_granted) decision.taken = kTakenUnknown;
  }

  // The answer to these may come after the caller and its limits are gone.
  void await(std::size_t i, std::span<Request> requests) {
    late_.push_back(i);
    for (std::size_t j = 0; j < requests.size(); ++j) {
      FallbackSpace& space = FallbackSpace::of(subjects_[i + j]);
      auto limit = space.keep(*requests[j].limit);
      requests[j].limit = limit.get();
      late_owners_.push_back(std::move(limit));
      late_owners_.push_back(space.shared_from_this());
    }
  }

  // Answers one request, or several asked together, in place of the store, whose decision is
  // kUnavailable.
  void answer_by_policy(std::size_t place, Requests requests, Decision& decision) {
    if (policy() == OnFailure::kRaise) {
      decision = {.source = Source::kUnavailable};
      return;
    }
    if (store_.local_ == nullptr) {
      decision = policy_decision(policy(), requests);
      return;
    }
    const Subjects subjects = subjects_.subspan(place, requests.size());
    const Decision lost = decision;
    const std::lock_guard lock(store_.local_mutex_);
    boost::container::small_vector<Request, 1> local;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.bring_to_told(subjects[i], requests[i], lost_at_);
      local.push_back(in_local(subjects[i], requests[i]));
    }
    decision = store_.local_->answer({local.data(), local.size()}, lost_at_);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.note_local(subjects[i], requests[i], decision, lost_at_, may_be_executed(lost));
      // The store may have charged what it was sent, so that is not charged back, unless its answer
      // comes late and says that it has not.
      if (lost.taken != kTakenLater) store_.settle_admitted(batch_, place + i, lost, lost_at_);
    }
  }

  void count(bool raises) {
    if (lost_ == 0) return;
    FallbackCounters& counters = store_.counters_;
    counters.unanswered.fetch_add(lost_, std::memory_order_relaxed);
    if (raises) return;
    auto& answered = store_.local_ ? counters.answered_by_local : counters.answered_by_policy;
    answered.fetch_add(lost_, std::memory_order_relaxed);
  }

  OnFailure policy() const { return store_.options_.on_failure; }

  FallbackStore& store_;
  Batch& batch_;
  const Subjects subjects_;
  std::size_t lost_ = 0;
  Instant lost_at_ = 0;  // The time at which the policy decides.
  bool answered_ = false;
  bool is_left_open_ = false;  // A request that only the inner store can answer has no answer.
  // Keys of requests that the store has admitted, if it lacks units of any keys: it would admit
  // more than the limit of such a key until it is charged with them.
  std::vector<KeyName> admitted_;
  std::vector<std::size_t> late_;  // Which decisions may still come.
  Batch::Owners late_owners_;      // Of what their requests refer to.
};

// Where an allocation fails, the process ends, as in run().
void FallbackStore::on_reply(Batch& batch, std::size_t i, SteadyTime arrived) noexcept {
  const std::span<const Request> requests = batch.requests_of(i);
  const Decision& decision = batch.decisions()[i];
  const bool is_for_caller = batch.outer.stage == Batch::Stage::kAsked;
  const Instant at = arrived_at(batch.now(), arrived);
  for (std::size_t j = 0; j < requests.size(); ++j) {
    const Request& request = requests[j];
    const Subject& subject = batch.outer.subjects[i + j];
    const Decision* const own = is_for_caller ? counted_decision(batch, i, j) : nullptr;
    if (own != nullptr) FallbackSpace::of(subject).count_answer(request, *own);
    // Of a permit that is reclaimed, nothing is known here.
    if (answers_ == nullptr || request.is_reclaim) continue;
    const Decision& answer = batch.own_decision(i, j);
    const bool is_for_permits = lends(*request.limit);
    std::unique_lock lock(local_mutex_, std::defer_lock);
    if (!is_for_caller) {
      // What was told and what is pending belong together. (A reset or block is not repeated in the
      // local states: the policy has carried it out there, and to do so again would end what came
      // after it. A permit that was granted is released: see Request::is_reclaim.)
      lock.lock();
    } else if (local_ != nullptr && local_->mirrors(request)) {
      Decision done = answer;
      done.allowed = decision.allowed;
      // Nothing else is known of permits: no need to agree with it.
      if (!is_for_permits) lock.lock();
      // What was told before a block does not end it.
      if (request.operation == Operation::kBlock) bring_to_told(subject, request, at);
      local_->mirror(subject.key, in_local(subject, request), done, at);
    }
    if (!is_for_permits) record(batch, i + j, answer, at);
    if (!is_for_caller) settle_admitted(batch, i + j, decision, at);
  }
}

bool FallbackStore::on_answered(Batch& batch) {
  if (batch.outer.stage != Batch::Stage::kAsked) return settle_late(batch);
  Settling settling(*this, batch);
  settling.run();
  for (std::size_t i = 0; i < batch.requests().size(); ++i) {
    Space* const space = batch.outer.subjects[i].space;
    if (space != nullptr) batch.requests()[i].space = space;
  }
  ++completing;
  // The completion is destroyed here as well: it may hold the last share of the store.
  std::exchange(batch.completion, nullptr)(batch);
  --completing;
  return settling.await_late();
}

// Of a batch without a caller: settles what has no answer. Returns whether there may be more
// answers.
bool FallbackStore::settle_late(Batch& batch) {
  bool may_be_more = false;
  for (std::size_t i = 0; i < batch.decisions().size(); ++i) {
    const Decision& decision = batch.decisions()[i];
    if (decision.source != Source::kUnavailable) continue;
    if (decision.taken == kTakenLater) {
      may_be_more = true;
      continue;
    }
    for (std::size_t j = 0; j < batch.requests_of(i).size(); ++j) {
      settle_admitted(batch, i + j, decision, decided_at(batch.now()));
    }
  }
  // Of charges: they have had their turn.
  if (const auto completion = std::exchange(batch.completion, nullptr)) completion(batch);
  return may_be_more;
}

bool FallbackStore::is_completing() {
  return completing > 0;
}

}  // namespace sluice

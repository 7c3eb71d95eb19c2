#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
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

}  // namespace

/// Handles the inner store's answers to a batch, of requests alone or asked together: records them,
/// and lets the policy decide the requests without an answer.
class FallbackStore::Settling {
 public:
  /// Both outlive this. REQUIRES: the inner store has made all decisions of the batch.
  Settling(FallbackStore& store, Batch& batch)
      : store_(store),
        batch_(batch),
        subjects_(batch.outer.subjects.data(), batch.outer.subjects.size()),
        arrived_(store.arrived_at(batch)) {}

  /// Where an allocation fails, the process ends: what was admitted would be noted by half.
  std::unique_ptr<Batch> run() noexcept {
    const Requests requests = batch_.requests();
    const std::span<Decision> decisions = batch_.decisions();
    const bool is_group = batch_.is_together() && requests.size() > 1;
    if (is_group) settle_group(requests, decisions[0]);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      if (subjects_[i].space == nullptr) continue;  // The inner store was not asked.
      Decision& decision = decisions[is_group ? 0 : i];
      if (!is_group) settle_one(subjects_.subspan(i, 1), requests.subspan(i, 1), decision);
      FallbackSpace::of(subjects_[i]).count(requests[i], decision);
    }
    const bool raises = lost_ > 0 && policy() == OnFailure::kRaise;
    if (raises) batch_.set_error("the store did not answer");
    if (!raises && !is_left_open_) batch_.clear_error();
    count(raises);
    if (!admitted_.empty() || (answered_ && store_.charges_.may_charge(arrived_))) {
      store_.charge_back(admitted_, batch_.now());
    }
    if (lates_.empty()) return nullptr;
    return store_.batch_of(std::move(lates_), late_requests_, batch_.mode(), batch_.now(),
                           batch_.outer.sent);
  }

 private:
  using Subjects = std::span<const Subject>;
  using Requests = std::span<const Request>;

  // Of one subject and its request.
  void settle_one(Subjects subjects, Requests requests, Decision& decision) {
    const Request& request = requests[0];
    const bool is_lost = decision.source == Source::kUnavailable;
    answered_ = answered_ || !is_lost;
    if (decision.taken == kTakenLater) await(subjects, requests);
    // It is not known whether the inner store granted this permit, so only the inner store is asked
    // to release it: a permit with that id in the local states would be another one.
    if (request.is_reclaim) {
      is_left_open_ = is_left_open_ || is_lost;
      if (decision.taken == kTakenLater) decision.taken = kTakenUnknown;
      return;
    }
    learn(subjects[0], request, decision, decision.allowed);
    if (!is_lost) return;
    const bool may_be_granted = may_be_executed(decision) && lends(*request.limit) &&
                                can_be_denied(request.operation, request.cost);
    answer_by_policy(subjects, requests, decision);
    // So the caller knows that the inner store may count the permit, and can release it there.
    if (may_be_granted) decision.taken = kTakenUnknown;
  }

  void settle_group(Requests requests, Decision& decision) {
    if (decision.source == Source::kUnavailable) {
      if (decision.taken == kTakenLater) await(subjects_, requests);
      return answer_by_policy(subjects_, requests, decision);
    }
    answered_ = true;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      learn(subjects_[i], requests[i], requests[i].parts[0], decision.allowed);
    }
  }

  // The answer to these may come after this one.
  void await(Subjects subjects, Requests requests) {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      FallbackSpace& space = FallbackSpace::of(subjects[i]);
      lates_.push_back({.name = name_of(subjects[i]),
                        .limit = space.keep(*requests[i].limit),
                        .space = space.inner,
                        .is_late = true});
      late_requests_.push_back(requests[i]);
      late_requests_.back().limit = lates_.back().limit.get();
    }
  }

  // `answer` is the request's own; `is_done`, whether all that were asked together are admitted.
  void learn(const Subject& subject, const Request& request, const Decision& answer, bool is_done) {
    if (store_.answers_ == nullptr) return;
    const bool is_for_permits = lends(*request.limit);
    const Operation operation = request.operation;
    if (answer.source != Source::kStore) {
      // The store may have carried it out, as record() says.
      if (!is_for_permits) store_.ask_again_after(request, name_of(subject));
      return;
    }
    if (store_.local_ != nullptr && store_.local_->mirrors(request)) {
      Decision done = answer;
      done.allowed = is_done;
      std::unique_lock lock(store_.local_mutex_, std::defer_lock);
      // Nothing else is known of permits: no need to agree with it.
      if (!is_for_permits) lock.lock();
      // What was told before a block does not end it.
      if (operation == Operation::kBlock) store_.bring_to_told(subject, request, arrived_);
      // A reset that was carried out before a block does not end it. (Of units, record() tells the
      // rest.)
      if (operation != Operation::kReset ||
          !store_.answers_->may_be_older_than_block(name_of(subject), since_of(batch_), arrived_)) {
        store_.local_->mirror(subject.key, in_local(subject, request), done, arrived_);
      }
    }
    if (is_for_permits) return;
    if (is_done && can_be_denied(operation, request.cost) && !store_.charges_.is_empty()) {
      admitted_.push_back(name_of(subject));
    }
    store_.record(name_of(subject), request, answer, batch_, arrived_, false);
  }

  // Answers one request, or several asked together, in place of the store, whose decision is
  // kUnavailable.
  void answer_by_policy(Subjects subjects, Requests requests, Decision& decision) {
    ++lost_;
    if (policy() == OnFailure::kRaise) {
      decision = {.source = Source::kUnavailable};
      return;
    }
    if (store_.local_ == nullptr) {
      decision = policy_decision(policy(), requests);
      return;
    }
    const bool may_be_done = may_be_executed(decision);
    const bool is_awaited = decision.taken == kTakenLater;
    const std::lock_guard lock(store_.local_mutex_);
    boost::container::small_vector<Request, 1> local;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.bring_to_told(subjects[i], requests[i], arrived_);
      local.push_back(in_local(subjects[i], requests[i]));
    }
    const std::span<Request> asked(local.data(), local.size());
    if (repeat_denials(subjects, requests, asked, decision)) return;
    decision = store_.local_->answer(asked, arrived_);
    // The store may have charged what it was sent, so that is not charged back, unless its answer
    // comes late and says that it has not.
    Sent sent = may_be_done ? Sent::kUnanswered : Sent::kNo;
    if (is_awaited) sent = Sent::kAnswerMayCome;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      auto admitted = store_.note_local(subjects[i], requests[i], decision, arrived_, sent);
      if (is_awaited) lates_[lates_.size() - requests.size() + i].admitted = std::move(admitted);
    }
  }

  // While the store is lost, what it has denied is denied until the retry_after that it gave. The
  // local states alone may admit it: they do not know of a block, for example. Of requests asked
  // together, one such denial denies all: the one with the longest wait, of equal ones the first.
  // Returns whether there is one. `local` are the requests about the local states.
  bool repeat_denials(Subjects subjects, Requests requests, std::span<Request> local,
                      Decision& decision) {
    if (batch_.now() != kStoreTime) return false;
    std::optional<std::size_t> denying;
    Decision denial;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Decision one;
      if (!can_be_denied(requests[i].operation, requests[i].cost) || lends(*requests[i].limit) ||
          !store_.answers_->denies(name_of(subjects[i]), requests[i], arrived_, one,
                                   LastAnswers::Inner::kIsLost) ||
          (denying && one.retry_after <= denial.retry_after)) {
        continue;
      }
      denying = i;
      denial = one;
      denial.source = Source::kLocal;
    }
    if (denying) decision = repeat(denial, *denying, local);
    return denying.has_value();
  }

  // The answer where a denial by the store stands: that of requests[denying] or of its binding
  // part. Writes the decisions of parts: those of the others are peeks at the local states.
  Decision repeat(const Decision& denial, std::size_t denying, std::span<Request> requests) {
    const bool is_group = requests.size() > 1;
    Decision answer = denial;
    if (is_group) answer.binding = static_cast<std::uint8_t>(denying);
    if (requests[0].parts.empty()) return answer;
    for (Request& request : requests) {
      request.operation = Operation::kTake;
      request.cost = 0;
    }
    store_.local_->answer(requests, arrived_);
    Decision& part = is_group ? requests[denying].parts[0] : requests[0].parts[denial.binding];
    part = denial;
    if (!is_group) part.binding = 0;  // It has no parts of its own.
    return answer;
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
  const std::span<const Subject> subjects_;
  const Instant arrived_;
  std::size_t lost_ = 0;
  bool answered_ = false;
  bool is_left_open_ = false;  // A request that only the inner store can answer has no answer.
  // Keys of requests that the store has admitted, if it lacks units of any keys: it would admit
  // more than the limit of such a key until it is charged with them.
  std::vector<KeyName> admitted_;
  std::vector<AnsweredLater> lates_;
  std::vector<Request> late_requests_;  // Of each of lates_.
};

std::unique_ptr<Batch> FallbackStore::on_answered(Batch& batch) {
  std::unique_ptr<Batch> late = Settling(*this, batch).run();
  std::span<const Decision> own_parts = batch.outer.parts;  // In the order of the requests.
  for (std::size_t i = 0; i < batch.requests().size(); ++i) {
    Request& request = batch.requests()[i];
    if (batch.outer.subjects[i].space != nullptr) request.space = batch.outer.subjects[i].space;
    if (!own_parts.empty() && request.parts.data() == own_parts.data()) {
      own_parts = own_parts.subspan(request.parts.size());
      request.parts = {};
    }
  }
  ++completing;
  // The completion is destroyed here as well: it may hold the last share of the store.
  std::exchange(batch.completion, nullptr)(batch);
  --completing;
  return late;
}

bool FallbackStore::is_completing() {
  return completing > 0;
}

}  // namespace sluice

#include "fallback/fallback_store.h"

#include <algorithm>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "core/key_hash.h"
#include "core/together.h"
#include "sluice/health.h"

namespace sluice {
namespace {

std::unique_ptr<LocalFallback> make_local(const FallbackOptions& options) {
  if (options.local_share < 1 || options.local_share > FallbackOptions::kMostShares) {
    throw StoreError("fallback store: local_share is 1/" + std::to_string(options.local_share) +
                     ", but it is from 1/1 to 1/" + std::to_string(FallbackOptions::kMostShares));
  }
  if (options.on_failure != OnFailure::kLocal) return nullptr;
  return std::make_unique<LocalFallback>(options.local_bytes, options.local_share);
}

// A peek at a part of a fresh key.
Decision peek_fresh(const AnyPart& part) {
  return std::visit(
      []<class P>(const P& p) {
        using A = typename P::Algorithm;
        return A::take(p.params, typename A::State{}, {.now = 0, .cost = 0}).decision;
      },
      part);
}

Decision peek_fresh(const LimitDefinition& limit) {
  Together all;
  for (const AnyPart& part : limit.parts) all.add(peek_fresh(part));
  return all.decision();
}

// The answer to a request, or to several asked together. REQUIRES: the policy is to allow or deny.
Decision policy_decision(OnFailure policy, std::span<const Request> requests) {
  assert(policy == OnFailure::kAllow || policy == OnFailure::kDeny);
  const bool denied =
      policy == OnFailure::kDeny && std::ranges::any_of(requests, [](const Request& request) {
        return takes(request.operation, request.cost);
      });
  const bool up_to = requests[0].operation == Operation::kTakeUpTo && !denied;
  const std::chrono::seconds wait(denied ? kPolicyWait : std::chrono::seconds(0));
  // Of what is fresh, only the numbers that say which limit binds.
  const auto decision = [&](const Decision& fresh) -> Decision {
    return {.allowed = !denied,
            .source = Source::kPolicy,
            .binding = fresh.binding,
            .limit = fresh.limit,
            .retry_after = wait,
            .reset_after = wait};
  };
  Decision all;
  if (requests.size() == 1) {
    const LimitDefinition& limit = *requests[0].limit;
    all = decision(peek_fresh(limit));
    for (std::size_t i = 0; i < requests[0].parts.size(); ++i) {
      requests[0].parts[i] = decision(peek_fresh(limit.parts[i]));
    }
  } else {
    Together fresh;
    for (const Request& request : requests) {
      const Decision one = peek_fresh(*request.limit);
      fresh.add(one);
      if (!request.parts.empty()) request.parts[0] = decision(one);
    }
    all = decision(fresh.decision());
  }
  if (up_to) all.taken = requests[0].cost;
  return all;
}

bool is_return(Operation operation) {
  return operation == Operation::kRefund || operation == Operation::kRenew ||
         operation == Operation::kRelease;
}

// How many completions the calling thread runs now, one within the other.
constinit thread_local int completing = 0;

void run_completion(Batch::Completion& completion, Batch& batch) {
  ++completing;
  // The completion is destroyed here as well: it may hold the last share of the store.
  std::exchange(completion, nullptr)(batch);
  --completing;
}

}  // namespace

/// A space of the inner store, and the space of the local states.
class FallbackStore::FallbackSpace final : public Space,
                                           public std::enable_shared_from_this<FallbackSpace> {
 public:
  static FallbackSpace& of(const Request& request) {
    return static_cast<FallbackSpace&>(*request.space);
  }

  DenyCache::Name name_of(const KeyHash& key) const {
    return {.space = number.load(std::memory_order_acquire), .key = key};
  }
  /// Whether the operation concerns the deny cache: it answers takes, and refunds and resets clear
  /// it. A block or a charge admits nothing, so it changes nothing there. Permits are not cached:
  /// one may be released long before retry_after.
  bool is_cached(Operation operation) const {
    return !lends && (takes(operation, 1) || operation == Operation::kRefund ||
                      operation == Operation::kReset);
  }

  /// A limit of this space that outlives the request.
  std::shared_ptr<const LimitDefinition> keep(const LimitDefinition& limit) {
    const std::lock_guard lock(kept_mutex_);
    if (kept_ == nullptr || kept_->expression != limit.expression) {
      kept_ = std::make_shared<const LimitDefinition>(limit);
    }
    return kept_;
  }

  std::shared_ptr<Space> inner;
  std::shared_ptr<Space> local;
  /// Identifies the space in the deny cache. With another number, all its denials are forgotten.
  std::atomic<std::uint64_t> number{0};
  std::string expression;
  /// Whether its limits lend permits; the same for all limits that share its states.
  bool lends = false;

 private:
  std::mutex kept_mutex_;
  std::shared_ptr<const LimitDefinition> kept_;  // guarded by kept_mutex_
};

/// Handles the inner store's answers to a batch: updates the deny cache, mirrors the answers into
/// the local states, and lets the policy decide the requests without an answer.
class FallbackStore::Settling {
 public:
  Settling(FallbackStore& store, std::span<const Subject> subjects, Instant now, Instant sent)
      : store_(store), subjects_(subjects), now_(now), sent_(sent) {}

  /// Settles decisions[i], the answer to requests[i], or the one decision of a group. Returns
  /// whether requests are left unanswered because the policy is kRaise. Throws
  /// std::invalid_argument where a group cannot be asked together; its decision is then
  /// kUnavailable.
  bool run(std::span<const Request> requests, std::span<Decision> decisions, Batch::Mode mode) {
    if (mode == Batch::Mode::kTogether) {
      settle_group(requests, decisions[0]);
    } else {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        settle(subjects_[i], requests[i], decisions[i]);
      }
    }
    const bool raises = lost_ > 0 && policy() == OnFailure::kRaise;
    count(raises);
    if (answered_ && store_.charges_->may_charge(store_.decided_at(now_))) store_.charge_back(now_);
    return raises;
  }

  /// Of something, only the store could say whether it is done.
  bool is_left_open() const { return is_left_open_; }

 private:
  void settle(const Subject& subject, const Request& request, Decision& decision) {
    const bool is_lost = decision.source == Source::kUnavailable;
    answered_ = answered_ || !is_lost;
    // Only the inner store may have given it: a permit with that id in the local states is another
    // one.
    if (request.giver == Source::kUnavailable) {
      is_left_open_ = is_left_open_ || is_lost;
      return forget(subject, request);
    }
    learn(subject, request, decision);
    if (is_lost) {
      ++lost_;
      forget(subject, request);
      decision = answer_by_policy(subject, request, decision.taken == kTakenUnknown);
    } else if (store_.local_ != nullptr) {
      store_.local_->mirror(subject.key, in_local(subject, request), decision, sent_);
    }
  }

  void settle_group(std::span<const Request> requests, Decision& decision) {
    if (decision.source == Source::kUnavailable) {
      ++lost_;
      decision = answer_group_by_policy(requests, decision.taken == kTakenUnknown);
      return;
    }
    answered_ = true;
    if (store_.local_ == nullptr) return;
    // Each for itself: a share that is used up does not keep the others from being mirrored.
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.local_->mirror_one_of_group(in_local(subjects_[i], requests[i]), decision, sent_);
    }
  }

  void learn(const Subject& subject, const Request& request, const Decision& answer) {
    const bool is_take = takes(request.operation, 1);
    if (!store_.denials_ || (is_take && answer.allowed)) return;
    if (!subject.space->is_cached(request.operation)) return;
    const DenyCache::Name name = subject.space->name_of(subject.key);
    if (!is_take) {
      // Cleared again (as before sending), because denials that arrived meanwhile may be older than
      // this refund or reset.
      store_.denials_->clear(name, store_.clock_.now());
    } else if (request.operation == Operation::kTake && answer.source == Source::kStore &&
               now_ == kStoreTime) {
      store_.denials_->remember(name, request, sent_, answer);
    }
  }

  void forget(const Subject& subject, const Request& request) {
    if (store_.local_ != nullptr) store_.local_->forget(subject.key, in_local(subject, request));
  }

  // `may_be_done`: the store may have charged the request, so that nothing is charged back.
  Decision answer_by_policy(const Subject& subject, const Request& request, bool may_be_done) {
    if (policy() == OnFailure::kRaise) return {.source = Source::kUnavailable};
    if (store_.local_ == nullptr) return policy_decision(policy(), {&request, 1});
    const Instant now = store_.decided_at(now_);
    Decision decision;
    if (is_still_denied(subject, request, now, decision)) return decision;
    decision = store_.local_->answer(in_local(subject, request), now);
    store_.note_local(subject, request, decision, now, may_be_done);
    return decision;
  }

  // What the store has denied stays denied while it is lost, whoever used the units.
  bool is_still_denied(const Subject& subject, const Request& request, Instant now,
                       Decision& decision) {
    if (now_ != kStoreTime || !takes(request.operation, request.cost) || subject.space->lends ||
        !store_.denials_->denies(subject.space->name_of(subject.key), request, now, decision,
                                 DenyCache::Answers::kNo)) {
      return false;
    }
    decision.source = Source::kLocal;
    std::ranges::fill(request.parts, decision);
    return true;
  }

  Decision answer_group_by_policy(std::span<const Request> requests, bool may_be_done) {
    if (policy() == OnFailure::kRaise) return {.source = Source::kUnavailable};
    if (store_.local_ == nullptr) return policy_decision(policy(), requests);
    OneOrMore<Request> local;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      local.push_back(in_local(subjects_[i], requests[i]));
    }
    const Instant now = store_.decided_at(now_);
    const Decision decision = store_.local_->answer_all({local.data(), local.size()}, now);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.note_local(subjects_[i], requests[i], decision, now, may_be_done);
    }
    return decision;
  }

  static Request in_local(const Subject& subject, const Request& request) {
    Request local = request;
    local.space = subject.space->local.get();
    return local;
  }

  void count(bool raises) {
    if (lost_ == 0) return;
    FallbackCounters& counters = *store_.counters_;
    counters.unanswered.fetch_add(lost_, std::memory_order_relaxed);
    if (raises) return;
    auto& answered = store_.local_ ? counters.local_answers : counters.policy_answers;
    answered.fetch_add(lost_, std::memory_order_relaxed);
  }

  OnFailure policy() const { return store_.options_.on_failure; }

  FallbackStore& store_;
  const std::span<const Subject> subjects_;
  const Instant now_;
  const Instant sent_;
  std::size_t lost_ = 0;
  bool answered_ = false;
  bool is_left_open_ = false;  // A request that only the inner store can answer has no answer.
};

FallbackStore::FallbackStore(std::shared_ptr<Store> inner, const FallbackOptions& options)
    : options_(options),
      local_(make_local(options)),
      secret_(local_ ? local_->store().secret() : HashSecret::random()),
      inner_(std::move(inner)) {
  if (options.deny_cache.count() > 0 || local_) denials_.emplace(options.deny_cache);
}

std::shared_ptr<Space> FallbackStore::open_space(const LimitDefinition& limit) {
  return replace_space(nullptr, limit);
}

std::shared_ptr<Space> FallbackStore::replace_space(const std::shared_ptr<Space>& held,
                                                    const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  // No other thread can take a share of it while mutex_ is held, so a count of one stays one: the
  // caller alone holds it, and goes on in the result.
  const auto* const former =
      held.use_count() == 1 ? static_cast<const FallbackSpace*>(held.get()) : nullptr;
  auto inner = former ? inner_->replace_space(former->inner, limit) : inner_->open_space(limit);
  std::shared_ptr<Space> local;
  if (local_) {
    MemoryStore& states = local_->store();
    local = former ? states.replace_space(former->local, limit) : states.open_space(limit);
  }
  std::weak_ptr<FallbackSpace>& known = spaces_[limit.space];
  if (const auto space = known.lock(); space && space->inner == inner && space->local == local) {
    if (!limit.varies && space->expression != limit.expression) {
      space->expression = limit.expression;
      space->number.store(++last_number_, std::memory_order_release);
    }
    return space;
  }
  const auto space = std::make_shared<FallbackSpace>();
  space->inner = std::move(inner);
  space->local = std::move(local);
  space->number.store(++last_number_, std::memory_order_release);
  space->expression = limit.expression;
  space->lends = lends(limit);
  if (former) space->succeed(*former);
  known = space;
  if (spaces_.size() >= drop_at_) {
    std::erase_if(spaces_, [](const auto& row) { return row.second.expired(); });
    drop_at_ = std::max(drop_at_, 2 * spaces_.size());
  }
  return space;
}

FallbackStore::Subject FallbackStore::subject_of(const Request& request) const {
  return {.space = &FallbackSpace::of(request), .key = hash_key(request.key, secret_)};
}

// Returns of what the policy or the local states gave are answered here, without the inner store.
bool FallbackStore::is_answered_here(const Subject& subject, const Request& request, Instant now,
                                     Instant& sent, Decision& decision) {
  if (is_return(request.operation) && request.giver == Source::kPolicy) {
    decision = policy_decision(OnFailure::kAllow, {&request, 1});
    return true;
  }
  if (is_return(request.operation) && request.giver == Source::kLocal && local_ != nullptr) {
    Request local = request;
    local.space = subject.space->local.get();
    decision = local_->answer(local, decided_at(now));
    note_local(subject, request, decision, decided_at(now), false);
    return true;
  }
  return is_denied_again(subject, request, now, sent, decision);
}

// Called in the order of the batch: a take after a refund or reset of its key is not denied from
// the cache.
bool FallbackStore::is_denied_again(const Subject& subject, const Request& request, Instant now,
                                    Instant& sent, Decision& decision) {
  if (!denials_ || !subject.space->is_cached(request.operation)) return false;
  const DenyCache::Name name = subject.space->name_of(subject.key);
  if (!takes(request.operation, 1)) {
    denials_->clear(name, clock_.now());
    return false;
  }
  // Of a denial that is remembered, the decisions of its parts are not.
  if (now != kStoreTime || !request.parts.empty() || !denials_->knows(name)) return false;
  // For a key in the cache the exact time is used, so that even a denial of nanoseconds ends in
  // time.
  sent = clock_.now();
  if (!denials_->denies(name, request, sent, decision)) return false;
  counters_->cached_denials.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void FallbackStore::decide(std::span<const Request> requests, Instant now,
                           std::span<Decision> decisions) {
  assert(decisions.size() >= requests.size());
  Instant sent = sent_at(now);
  OneOrMore<Request> asked;
  OneOrMore<Subject> subjects;
  OneOrMore<std::size_t> places;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Subject subject = subject_of(requests[i]);
    if (is_answered_here(subject, requests[i], now, sent, decisions[i])) continue;
    if (local_) local_->expect(subject.key, *subject.space->local, requests[i]);
    asked.push_back(requests[i]);
    asked.back().space = subject.space->inner.get();
    subjects.push_back(subject);
    places.push_back(i);
  }
  if (asked.empty()) return;
  const std::span<const Request> all{asked.data(), asked.size()};
  OneOrMore<Decision> answers(asked.size(), Decision{.source = Source::kUnavailable});
  std::string error;
  try {
    inner_->decide(all, now, answers);
  } catch (const StoreError& unanswered) {
    error = unanswered.what();
  }
  Settling settling(*this, {subjects.data(), subjects.size()}, now, sent);
  const bool raises = settling.run(all, answers, Batch::Mode::kEach);
  for (std::size_t i = 0; i < places.size(); ++i) decisions[places[i]] = answers[i];
  if (raises) throw StoreError(error);
}

Decision FallbackStore::decide_all(std::span<const Request> requests, Instant now) {
  const Instant sent = sent_at(now);
  OneOrMore<Request> asked(requests.begin(), requests.end());
  OneOrMore<Subject> subjects;
  for (Request& request : asked) {
    subjects.push_back(subject_of(request));
    request.space = subjects.back().space->inner.get();
  }
  const std::span<const Request> all{asked.data(), asked.size()};
  Decision answer{.source = Source::kUnavailable};  // Whether it was sent, an error does not tell.
  std::string error;
  try {
    answer = inner_->decide_all(all, now);
  } catch (const StoreError& unanswered) {
    error = unanswered.what();
  }
  Settling settling(*this, {subjects.data(), subjects.size()}, now, sent);
  if (settling.run(all, {&answer, 1}, Batch::Mode::kTogether)) throw StoreError(error);
  return answer;
}

void FallbackStore::submit(std::unique_ptr<Batch> batch) {
  Instant sent = sent_at(batch->now());
  std::vector<Subject> subjects;
  subjects.reserve(batch->requests().size());
  if (batch->is_together()) {
    for (const Request& request : batch->requests()) subjects.push_back(subject_of(request));
    return pass_on(std::move(batch), std::move(subjects), sent);
  }
  OneOrMore<std::size_t> asked;
  for (std::size_t i = 0; i < batch->requests().size(); ++i) {
    const Request& request = batch->requests()[i];
    const Subject subject = subject_of(request);
    if (is_answered_here(subject, request, batch->now(), sent, batch->decisions()[i])) continue;
    if (local_) local_->expect(subject.key, *subject.space->local, request);
    asked.push_back(i);
    subjects.push_back(subject);
  }
  if (asked.empty()) return Batch::complete(std::move(batch));
  if (asked.size() == batch->requests().size()) {
    return pass_on(std::move(batch), std::move(subjects), sent);
  }

  std::vector<Request> requests;
  std::vector<Decision*> answers;
  for (const std::size_t i : asked) {
    requests.push_back(batch->requests()[i]);
    answers.push_back(&batch->decisions()[i]);
  }
  auto rest = std::make_unique<Batch>(requests, Batch::Mode::kEach, batch->now());
  rest->completion = [whole = std::make_shared<std::unique_ptr<Batch>>(std::move(batch)), requests,
                      answers](Batch& answered) {
    answered.copy_parts(requests);
    for (std::size_t i = 0; i < answers.size(); ++i) *answers[i] = answered.decisions()[i];
    (*whole)->set_error(answered.error());
    Batch::complete(std::move(*whole));
  };
  pass_on(std::move(rest), std::move(subjects), sent);
}

// Submits the whole batch to the inner store.
void FallbackStore::pass_on(std::unique_ptr<Batch> batch, std::vector<Subject> subjects,
                            Instant sent) {
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    batch->requests()[i].space = subjects[i].space->inner.get();
  }
  batch->completion = [this, sent, subjects = std::move(subjects),
                       caller = std::move(batch->completion)](Batch& answered) mutable {
    const auto mode = answered.is_together() ? Batch::Mode::kTogether : Batch::Mode::kEach;
    Settling settling(*this, {subjects.data(), subjects.size()}, answered.now(), sent);
    try {
      const bool raises = settling.run(answered.requests(), answered.decisions(), mode);
      if (raises) answered.set_error("the store did not answer");
      if (!raises && !settling.is_left_open()) answered.clear_error();
    } catch (const std::invalid_argument& error) {
      answered.clear_error();
      answered.set_error(error.what());
    }
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      answered.requests()[i].space = subjects[i].space;
    }
    run_completion(caller, answered);
  };
  inner_->submit(std::move(batch));
}

// Keeps account of what the local states have admitted, or taken back.
void FallbackStore::note_local(const Subject& subject, const Request& request,
                               const Decision& answer, Instant now, bool may_be_done) {
  if (subject.space->lends || !answer.allowed) return;
  std::int64_t units = 0;
  switch (request.operation) {
    case Operation::kTake:
    case Operation::kCharge:
      units = request.cost;
      break;
    case Operation::kTakeUpTo:
      units = answer.taken;
      break;
    case Operation::kRefund:
      return charges_->subtract(*subject.space, subject.key, request.cost);
    case Operation::kReset:
      return charges_->forget(*subject.space, subject.key);
    default:
      return;
  }
  if (units == 0) return;
  if (may_be_done) return count_not_charged_back(units);
  Request local = request;
  local.space = subject.space->local.get();
  const auto until = now + local_->reset_after(local, now).count();
  const std::int64_t lost = charges_->add(subject.key,
                                          {.space = subject.space->weak_from_this(),
                                           .limit = subject.space->keep(*request.limit),
                                           .name = std::string(request.key),
                                           .units = units},
                                          now, until);
  count_not_charged_back(lost);
}

void FallbackStore::count_not_charged_back(std::int64_t units) {
  counters_->not_charged_back.fetch_add(static_cast<std::uint64_t>(units),
                                        std::memory_order_relaxed);
}

// The store answers: charges to it what the local states have admitted and still counts.
void FallbackStore::charge_back(Instant now) {
  std::vector<Request> requests;
  std::vector<std::shared_ptr<const void>> owners;
  std::vector<ChargeBack::Key> keys = charges_->take(decided_at(now));
  std::vector<ChargeBack::Key> charged;
  std::int64_t lost = 0;
  for (ChargeBack::Key& key : keys) {
    const auto space = std::static_pointer_cast<FallbackSpace>(key.space.lock());
    if (space == nullptr) {
      lost += key.units;
      continue;
    }
    Request request{.limit = key.limit.get(), .space = space->local.get(), .key = key.name};
    request.cost = std::min(key.units, local_->units_that_count(request, decided_at(now)));
    if (request.cost == 0) continue;
    request.operation = Operation::kCharge;
    request.space = space->inner.get();
    requests.push_back(request);
    owners.push_back(space);
    owners.push_back(key.limit);
    key.units = request.cost;
    charged.push_back(key);
  }
  count_not_charged_back(lost);
  if (requests.empty()) return;
  auto batch = std::make_unique<Batch>(requests, Batch::Mode::kEach, now);
  for (auto& owner : owners) batch->keep(std::move(owner));
  // The inner store may have other owners, and answer when this is gone.
  batch->completion = [counters = counters_, charges = charges_, charged = std::move(charged),
                       at = decided_at(now)](Batch& answered) {
    for (std::size_t i = 0; i < charged.size(); ++i) {
      const Decision& decision = answered.decisions()[i];
      const bool is_lost = decision.source == Source::kUnavailable;
      // What the store certainly has not charged is charged later.
      if (is_lost && decision.taken == 0 && charges->return_later(charged[i], at)) continue;
      auto& count = is_lost ? counters->not_charged_back : counters->charged_back;
      count.fetch_add(static_cast<std::uint64_t>(charged[i].units), std::memory_order_relaxed);
    }
  };
  inner_->submit(std::move(batch));
}

std::unique_ptr<Watch> FallbackStore::watch(const std::shared_ptr<Space>& space,
                                            std::string_view key, std::function<void()> released) {
  return inner_->watch(static_cast<const FallbackSpace&>(*space).inner, key, std::move(released));
}

bool FallbackStore::is_completing() {
  return completing > 0;
}

void FallbackStore::add_health(StoreHealth& health) const {
  inner_->add_health(health);
  health.answered_by_cache = counters_->cached_denials.load(std::memory_order_relaxed);
  health.answered_by_local = counters_->local_answers.load(std::memory_order_relaxed);
  health.answered_by_policy = counters_->policy_answers.load(std::memory_order_relaxed);
  health.unanswered = counters_->unanswered.load(std::memory_order_relaxed);
  health.charged_back = counters_->charged_back.load(std::memory_order_relaxed);
  health.not_charged_back = counters_->not_charged_back.load(std::memory_order_relaxed);
}

}  // namespace sluice

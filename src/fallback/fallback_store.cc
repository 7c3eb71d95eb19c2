#include "fallback/fallback_store.h"

#include <algorithm>
#include <array>
#include <boost/container/small_vector.hpp>
#include <cassert>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "core/key_hash.h"
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

  /// Counts the decision of a request, or of several asked together of which this is one.
  void count(const Request& request, const Decision& decision) {
    if (!takes(request.operation, request.cost)) return;
    const auto source = static_cast<std::size_t>(decision.source);
    decisions_[decision.allowed ? 1 : 0][source].fetch_add(1, std::memory_order_relaxed);
  }
  void add_counts(const std::string& limit, std::vector<DecisionCount>& counts) const {
    for (const bool allowed : {true, false}) {
      for (std::size_t source = 0; source < kSources; ++source) {
        const auto count = decisions_[allowed ? 1 : 0][source].load(std::memory_order_relaxed);
        if (count != 0) counts.push_back({limit, allowed, static_cast<Source>(source), count});
      }
    }
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
  static constexpr std::size_t kSources = static_cast<std::size_t>(Source::kUnavailable) + 1;

  // By whether they were allowed, and by Decision::source.
  std::array<std::array<std::atomic<std::uint64_t>, kSources>, 2> decisions_{};
  std::mutex kept_mutex_;
  std::shared_ptr<const LimitDefinition> kept_;  // guarded by kept_mutex_
};

/// Handles the inner store's answers to a batch, of requests alone or asked together: updates the
/// deny cache, mirrors the answers into the local states, and lets the policy decide the requests
/// without an answer.
class FallbackStore::Settling {
 public:
  Settling(FallbackStore& store, std::span<const Subject> subjects, Instant now, Instant sent)
      : store_(store), subjects_(subjects), now_(now), sent_(sent) {}

  /// Settles decisions[i], the answer to requests[i], or the one decision of a group. Returns
  /// whether requests are left unanswered because the policy is kRaise. Throws
  /// std::invalid_argument where a group cannot be asked together; its decision is then
  /// kUnavailable.
  bool run(std::span<const Request> requests, std::span<Decision> decisions, Batch::Mode mode) {
    if (mode == Batch::Mode::kTogether && requests.size() > 1) {
      settle_group(requests, decisions[0]);
    } else {
      for (std::size_t i = 0; i < requests.size(); ++i) {
        settle_one(subjects_.subspan(i, 1), requests.subspan(i, 1), decisions[i]);
      }
    }
    for (std::size_t i = 0; i < requests.size(); ++i) {
      subjects_[i].space->count(requests[i], decisions[i % decisions.size()]);
    }
    const bool raises = lost_ > 0 && policy() == OnFailure::kRaise;
    count(raises);
    if (answered_ && store_.charges_->may_charge(store_.decided_at(now_))) store_.charge_back(now_);
    return raises;
  }

  /// Whether a request that only the inner store can answer has no answer.
  bool is_left_open() const { return is_left_open_; }

 private:
  using Subjects = std::span<const Subject>;
  using Requests = std::span<const Request>;

  // Of one subject and its request.
  void settle_one(Subjects subjects, Requests requests, Decision& decision) {
    const Request& request = requests[0];
    const bool is_lost = decision.source == Source::kUnavailable;
    answered_ = answered_ || !is_lost;
    // It is not known whether the inner store granted this permit, so only the inner store is asked
    // to release it: a permit with that id in the local states would be another one.
    if (request.giver == Source::kUnavailable) {
      is_left_open_ = is_left_open_ || is_lost;
      return store_.forget(subjects);
    }
    learn(subjects[0], request, decision);
    if (!is_lost) return mirror(subjects[0], request, decision);
    store_.forget(subjects);
    answer_by_policy(subjects, requests, decision);
  }

  void settle_group(Requests requests, Decision& decision) {
    // None is under way any more: while the answer to one is mirrored, the others do not count.
    store_.forget(subjects_);
    if (decision.source == Source::kUnavailable) {
      return answer_by_policy(subjects_, requests, decision);
    }
    answered_ = true;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      Decision told = requests[i].parts[0];
      learn(subjects_[i], requests[i], told);
      told.allowed = decision.allowed;
      Subject settled = subjects_[i];
      settled.expected = 0;
      mirror(settled, requests[i], told);
    }
  }

  void learn(const Subject& subject, const Request& request, const Decision& answer) {
    if (!store_.denials_ || !subject.space->is_cached(request.operation)) return;
    const DenyCache::Name name = subject.space->name_of(subject.key);
    if (!takes(request.operation, 1)) {
      // Cleared again (as before sending), because denials that arrived meanwhile may be older than
      // this refund or reset.
      store_.denials_->clear(name, store_.clock_.now());
    } else if (now_ != kStoreTime || answer.source != Source::kStore) {
      return;
    } else if (answer.allowed) {
      store_.denials_->refute(name, request, sent_);
    } else if (request.operation == Operation::kTake) {
      store_.denials_->remember(name, request, sent_, answer);
    }
  }

  void mirror(const Subject& subject, const Request& request, const Decision& told) {
    if (store_.local_ == nullptr) return;
    store_.local_->mirror(subject.key, in_local(subject, request), subject.expected, told, sent_);
  }

  // Answers one request, or several asked together, in place of the store, whose decision is
  // kUnavailable.
  void answer_by_policy(Subjects subjects, Requests requests, Decision& decision) {
    ++lost_;
    const bool was_sent = decision.taken == kTakenUnknown;
    if (policy() == OnFailure::kRaise) {
      decision = {.source = Source::kUnavailable};
      return;
    }
    if (store_.local_ == nullptr) {
      decision = policy_decision(policy(), requests);
      return;
    }
    const Instant now = store_.decided_at(now_);
    if (is_still_denied(subjects, requests, now, decision)) return;
    OneOrMore<Request> local;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      local.push_back(in_local(subjects[i], requests[i]));
    }
    decision = store_.local_->answer({local.data(), local.size()}, now);
    // The store may have charged what it was sent, so that is not charged back; unless it has
    // denied the like of it just before. On a busy key nearly all that is sent is denied.
    const bool may_be_done = was_sent && !was_denied_last(subjects, requests);
    for (std::size_t i = 0; i < requests.size(); ++i) {
      store_.note_local(subjects[i], requests[i], decision, now, may_be_done);
    }
  }

  bool was_denied_last(Subjects subjects, Requests requests) const {
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const FallbackSpace& space = *subjects[i].space;
      if (space.lends) continue;
      if (store_.denials_->denied_last(space.name_of(subjects[i].key), requests[i])) return true;
    }
    return false;
  }

  // While the store is lost, what it has denied is denied until the retry_after that it gave. The
  // local states alone may admit it: they do not know of a block, for example. Of requests asked
  // together, one such denial denies all.
  bool is_still_denied(Subjects subjects, Requests requests, Instant now, Decision& decision) {
    if (now_ != kStoreTime) return false;
    std::optional<std::size_t> denied;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const Request& request = requests[i];
      const FallbackSpace& space = *subjects[i].space;
      Decision one;
      if (!takes(request.operation, request.cost) || space.lends ||
          !store_.denials_->denies(space.name_of(subjects[i].key), request, now, one,
                                   DenyCache::Answers::kNo)) {
        continue;
      }
      if (denied && one.retry_after <= decision.retry_after) continue;
      denied = i;
      decision = one;
    }
    if (!denied) return false;
    decision.source = Source::kLocal;
    fill_parts(subjects, requests, now, *denied, decision);
    if (requests.size() > 1) decision.binding = static_cast<std::uint8_t>(*denied);
    return true;
  }

  // Writes the decisions of parts where they are wanted. `denial`, which the store gave to
  // requests[denied], is that of the binding part; the others are as the local states have them.
  void fill_parts(Subjects subjects, Requests requests, Instant now, std::size_t denied,
                  const Decision& denial) {
    const bool is_group = requests.size() > 1;
    for (std::size_t i = 0; i < requests.size(); ++i) {
      const std::span<Decision> parts = requests[i].parts;
      if (parts.empty()) continue;
      Request peek = in_local(subjects[i], requests[i]);
      peek.operation = Operation::kTake;
      peek.cost = 0;
      if (is_group) peek.parts = {};
      const Decision whole = store_.local_->answer({&peek, 1}, now);
      if (is_group) parts[0] = whole;
      for (Decision& part : parts) {
        if (part.remaining >= requests[i].cost) continue;
        part.allowed = false;
        part.retry_after = denial.retry_after;  // The binding part's is the longest.
      }
      if (i == denied) parts[is_group ? 0 : denial.binding] = denial;
    }
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
  bool is_left_open_ = false;
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

// The inner store is about to be asked. Its answer is mirrored, or forget() is called.
void FallbackStore::expect(Subject& subject, const Request& request) {
  if (local_) subject.expected = local_->expect(subject.key, *subject.space->local, request);
}

void FallbackStore::forget(std::span<const Subject> subjects) {
  if (local_ == nullptr) return;
  for (const Subject& subject : subjects) {
    local_->forget(subject.key, *subject.space->local, subject.expected);
  }
}

Request FallbackStore::in_local(const Subject& subject, const Request& request) {
  Request local = request;
  local.space = subject.space->local.get();
  return local;
}

// Returns of what the policy or the local states gave are answered here, without the inner store.
bool FallbackStore::is_answered_here(const Subject& subject, const Request& request, Instant now,
                                     Instant& sent, Decision& decision) {
  if (is_return(request.operation) && request.giver == Source::kPolicy) {
    decision = policy_decision(OnFailure::kAllow, {&request, 1});
    return true;
  }
  if (is_return(request.operation) && request.giver == Source::kLocal && local_ != nullptr) {
    const Request local = in_local(subject, request);
    decision = local_->answer({&local, 1}, decided_at(now));
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
  subject.space->count(request, decision);
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
    Subject subject = subject_of(requests[i]);
    if (is_answered_here(subject, requests[i], now, sent, decisions[i])) continue;
    expect(subject, requests[i]);
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

void FallbackStore::decide_all(std::span<const Request> requests, Instant now, Decision& decision) {
  const Instant sent = sent_at(now);
  OneOrMore<Request> asked(requests.begin(), requests.end());
  OneOrMore<Subject> subjects;
  // The decision of each is wanted in any case: the local states learn from it.
  OneOrMore<Decision> own(asked.size(), Decision{.source = Source::kUnavailable});
  for (std::size_t i = 0; i < asked.size(); ++i) {
    subjects.push_back(subject_of(asked[i]));
    expect(subjects[i], asked[i]);
    asked[i].space = subjects[i].space->inner.get();
    if (asked.size() > 1 && asked[i].parts.empty()) asked[i].parts = {&own[i], 1};
  }
  const std::span<const Request> all{asked.data(), asked.size()};
  const std::span<const Subject> about{subjects.data(), subjects.size()};
  decision = {.source = Source::kUnavailable};
  std::string error;
  try {
    inner_->decide_all(all, now, decision);
  } catch (const StoreError& unanswered) {
    error = unanswered.what();
  } catch (const std::invalid_argument&) {
    forget(about);
    throw;
  }
  Settling settling(*this, about, now, sent);
  if (settling.run(all, {&decision, 1}, Batch::Mode::kTogether)) throw StoreError(error);
}

void FallbackStore::submit(std::unique_ptr<Batch> batch) {
  Instant sent = sent_at(batch->now());
  std::vector<Subject> subjects;
  subjects.reserve(batch->requests().size());
  if (batch->is_together()) return submit_together(std::move(batch), sent);
  OneOrMore<std::size_t> asked;
  for (std::size_t i = 0; i < batch->requests().size(); ++i) {
    const Request& request = batch->requests()[i];
    Subject subject = subject_of(request);
    if (is_answered_here(subject, request, batch->now(), sent, batch->decisions()[i])) continue;
    expect(subject, request);
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

void FallbackStore::submit_together(std::unique_ptr<Batch> batch, Instant sent) {
  std::vector<Subject> subjects;
  std::vector<std::shared_ptr<FallbackSpace>> held;  // If the batch is refused, it lets them go.
  for (const Request& request : batch->requests()) {
    subjects.push_back(subject_of(request));
    held.push_back(subjects.back().space->shared_from_this());
    expect(subjects.back(), request);
  }
  try {
    pass_on(std::move(batch), subjects, sent);
  } catch (const std::invalid_argument&) {
    forget(subjects);
    throw;
  }
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
  const auto until = now + local_->reset_after(in_local(subject, request), now).count();
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

void FallbackStore::add_counts(std::vector<DecisionCount>& counts) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, held] : spaces_) {
    if (const auto space = held.lock()) space->add_counts(name, counts);
  }
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

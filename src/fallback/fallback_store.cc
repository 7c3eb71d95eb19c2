#include "fallback/fallback_store.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

#include "core/block.h"
#include "core/key_hash.h"
#include "fallback/fallback_space.h"
#include "sluice/health.h"

namespace sluice {
namespace {

// Where only denials are kept.
constexpr std::size_t kDenialBytes = std::size_t{2} << 20;

std::unique_ptr<LocalFallback> make_local(const FallbackOptions& options) {
  if (options.local_share < 1 || options.local_share > FallbackOptions::kMostShares) {
    throw StoreError("fallback store: local_share is 1/" + std::to_string(options.local_share) +
                     ", but it is from 1/1 to 1/" + std::to_string(FallbackOptions::kMostShares));
  }
  if (options.on_failure != OnFailure::kLocal) return nullptr;
  return std::make_unique<LocalFallback>(options.local_bytes / 2, options.local_share);
}

std::unique_ptr<LastAnswers> make_answers(const FallbackOptions& options) {
  using Keeps = LastAnswers::Keeps;
  const bool is_local = options.on_failure == OnFailure::kLocal;
  if (!is_local && options.deny_cache.count() == 0) return nullptr;
  return std::make_unique<LastAnswers>(
      LastAnswers::Options{.keeps = is_local ? Keeps::kAll : Keeps::kDenials,
                           .most_bytes = is_local ? options.local_bytes / 2 : kDenialBytes,
                           .hold = options.deny_cache});
}

bool is_return(Operation operation) {
  return operation == Operation::kRefund || operation == Operation::kRenew ||
         operation == Operation::kRelease;
}

}  // namespace

FallbackStore::FallbackStore(std::shared_ptr<Store> inner, const FallbackOptions& options)
    : options_(options),
      local_(make_local(options)),
      secret_(local_ ? local_->secret() : HashSecret::random()),
      answers_(make_answers(options)),
      inner_(std::move(inner)) {
  if (local_) inner_->on_up([this] { charge_back({}, kStoreTime); });
}

std::shared_ptr<Space> FallbackStore::replace_space(const std::shared_ptr<Space>& held,
                                                    const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  if (spaces_.size() >= drop_at_) drop_names();
  Known& known = spaces_[limit.space];
  const auto former = known.space.lock();
  // Then the inner store and the local states may replace their spaces, too.
  const bool is_free = former != nullptr && !former->has_others(held);
  // The local states first: those of the former limit stay as they are if the inner store, or they
  // themselves, have no room for this one.
  const bool keeps_number = keeps_state(known.parts, limit.parts);
  const std::uint64_t number = keeps_number ? known.number : last_number_ + 1;
  std::shared_ptr<Space> local;
  if (local_) local = local_->open_space(is_free ? former->local : nullptr, limit, number);
  auto inner = inner_->replace_space(is_free ? former->inner : nullptr, limit);
  if (former && former->inner == inner && former->local == local) return Space::hold(former, held);
  if (!keeps_number) {
    known.number = last_number_ = number;
    known.parts = limit.parts;
  }
  const auto space = std::make_shared<FallbackSpace>();
  space->inner = std::move(inner);
  space->local = std::move(local);
  space->number = number;
  if (is_free) space->succeed(*former);
  known.space = space;
  known.is_gone = false;
  return Space::hold(space, held);
}

// Drops the names that were not in use at the last call either: since then kKeptNames others have
// been added. REQUIRES: mutex_ is held.
void FallbackStore::drop_names() {
  for (auto next = spaces_.begin(); next != spaces_.end();) {
    const auto row = next++;
    Known& known = row->second;
    const bool was_gone = std::exchange(known.is_gone, known.space.expired());
    if (was_gone && known.is_gone) spaces_.erase(row);
  }
  drop_at_ = spaces_.size() + kKeptNames;
}

KeyName FallbackStore::name_of(const Subject& subject) {
  // By halves, as it was stored a moment ago: a copy of both at once would have to wait for that.
  return {.space = FallbackSpace::of(subject).number,
          .key = {.high = subject.key.high, .low = subject.key.low}};
}

Request FallbackStore::in_local(const Subject& subject, const Request& request) {
  Request local = request;
  local.space = FallbackSpace::of(subject).local.get();
  return local;
}

// Answers the request without the inner store, if it can: a return of what the policy or the local
// states gave, or a request that the store has just denied. Returns whether it did.
bool FallbackStore::answer_inline(Subject& subject, const Request& request, Instant now,
                                  Instant& sent, Decision& decision) {
  if (is_return(request.operation) && request.giver == Source::kPolicy) {
    decision = policy_decision(OnFailure::kAllow, {&request, 1});
    return true;
  }
  if (is_return(request.operation) && request.giver == Source::kLocal && local_ != nullptr) {
    const Instant at = decided_at(now);
    const Request local = in_local(subject, request);
    const std::lock_guard lock(local_mutex_);
    bring_to_told(subject, request, at);
    decision = local_->answer({&local, 1}, at);
    note_local(subject, request, decision, at, false);
    return true;
  }
  return repeat_denial(subject, request, now, sent, decision);
}

// Answers the request by a remembered denial, if there is one. Returns whether it did. Called in
// the order of the batch: a take after a refund or reset of its key is not denied from what is
// remembered. Permits always ask: one may be released long before retry_after.
bool FallbackStore::repeat_denial(const Subject& subject, const Request& request, Instant now,
                                  Instant& sent, Decision& decision) {
  if (answers_ == nullptr || lends(*request.limit)) return false;
  const KeyName name = name_of(subject);
  // What the reset forgets is not charged behind it. (Not again when its answer is there: what was
  // admitted since may come after the reset.)
  if (request.operation == Operation::kReset) charges_.forget(name);
  ask_again_after(request, name);
  // The decisions of the parts are not remembered with a denial.
  const bool wants_parts = !request.parts.empty() && !request.parts_if_allowed;
  if (!can_be_denied(request.operation, request.cost) || now != kStoreTime || wants_parts ||
      !answers_->was_denied(name, sent)) {
    return false;
  }
  // The exact time: else a denial of a few nanoseconds would last until the next tick.
  sent = clock_.now();
  if (!answers_->denies(name, request, sent, decision)) return false;
  counters_.answered_by_cache.fetch_add(1, std::memory_order_relaxed);
  FallbackSpace::of(subject).count(request, decision);
  return true;
}

void FallbackStore::submit(std::unique_ptr<Batch> batch) {
  if (auto left = left_to_ask(std::move(batch))) inner_->submit(std::move(left));
}

void FallbackStore::submit_and_wait(std::unique_ptr<Batch> batch) {
  if (auto left = left_to_ask(std::move(batch))) inner_->submit_and_wait(std::move(left));
}

// Answers what needs no asking. Returns the batch for the inner store, or completes it and returns
// null if nothing is left to ask: then this object may be gone.
std::unique_ptr<Batch> FallbackStore::left_to_ask(std::unique_ptr<Batch> batch) {
  const std::span<Request> requests = batch->requests();
  auto& subjects = batch->outer.subjects;
  subjects.reserve(requests.size());
  Instant sent = sent_at(batch->now());
  bool is_open = false;
  bool has_parts = false;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    Request& request = requests[i];
    Subject& subject = subjects.emplace_back();
    subject.space = request.space;
    subject.key = hash_key(request.key, secret_);
    if (!batch->is_group() &&
        answer_inline(subject, request, batch->now(), sent, batch->decisions()[i])) {
      subject.space = nullptr;
      continue;
    }
    is_open = true;
    has_parts = has_parts || request.limit->parts.size() > 1;
    request.space = FallbackSpace::of(subject).inner.get();
  }
  if (!is_open) {
    Batch::complete(std::move(batch));
    return nullptr;
  }
  batch->outer.store = this;
  batch->outer.sent = sent;
  if (has_parts && local_ != nullptr) want_parts(*batch);
  return batch;
}

// Wants the decisions of the parts of each `a & b` that is asked alone, also where the caller does
// not: the local states need them.
void FallbackStore::want_parts(Batch& batch) {
  batch.keep_parts([](const Request& request) {
    const std::size_t parts = request.limit->parts.size();
    return request.parts.empty() && parts > 1 ? parts : request.parts.size();
  });
}

// Before the local states answer for the key or block it. REQUIRES: the policy is local, and
// local_mutex_ is held.
void FallbackStore::bring_to_told(const Subject& subject, const Request& request, Instant now) {
  assert(local_ != nullptr);
  if (lends(*request.limit)) return;
  if (request.operation == Operation::kBlock) answers_->note_block(name_of(subject), now);
  const auto told = answers_->take_new(name_of(subject), *request.limit);
  if (std::ranges::none_of(told.parts, [](const auto& one) { return one.has_value(); })) return;
  local_->set_told(subject.key, in_local(subject, request), told,
                   charges_.pending(name_of(subject), now), now);
}

// Keeps account of what the local states have admitted, or taken back. `is_sent`: the store may
// carry out the request as well; then settle_admitted() is called when that is known, or never will
// be.
void FallbackStore::note_local(Subject& subject, const Request& request, const Decision& answer,
                               Instant now, bool is_sent) {
  if (lends(*request.limit) || !answer.allowed) return;
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
      // If it was sent, the store may have got these units.
      if (!is_sent) charges_.subtract(name_of(subject), request.cost);
      return;
    case Operation::kReset:
      charges_.forget(name_of(subject));
      return;
    default:
      return;
  }
  if (units == 0) return;
  const auto until =
      now + local_->reset_after(subject.key, in_local(subject, request), now).count();
  ChargeBack::Charge charge{.name = name_of(subject),
                            .limit = FallbackSpace::of(subject).keep(*request.limit),
                            .key = std::string(request.key),
                            .units = units};
  const std::int64_t lost = charges_.add(charge, now, until, is_sent);
  count_not_charged_back(lost);
  if (!is_sent) return;
  subject.admitted = units - lost;
  subject.entry = charge.entry;
}

void FallbackStore::count_not_charged_back(std::int64_t units) {
  counters_.not_charged_back.fetch_add(static_cast<std::uint64_t>(units),
                                       std::memory_order_relaxed);
}

// The space of what is to be charged. If its limiter is gone, the space is opened again. Null if
// the name has begun fresh since, with another algorithm for example, or if the space cannot be
// opened.
std::shared_ptr<FallbackSpace> FallbackStore::space_of(const ChargeBack::Charge& charge) {
  const auto is_its_own = [&](std::uint64_t number) { return number == charge.name.space; };
  {
    const std::lock_guard lock(mutex_);
    const auto known = spaces_.find(charge.limit->space);
    if (known == spaces_.end() || !is_its_own(known->second.number)) return nullptr;
    if (auto space = known->second.space.lock()) return space;
  }
  try {
    auto space = static_cast<FallbackSpace&>(*open_space(*charge.limit)).shared_from_this();
    return is_its_own(space->number) ? space : nullptr;
  } catch (const StoreError&) {
    return nullptr;
  }
}

// The store answers, or can be asked again: charges to it what the local states have admitted and
// still counts. For these keys, of which it has just admitted requests, that may not wait until
// other keys' charges may be sent. Those are sent one batch after the other, or callers would wait
// behind thousands of them.
void FallbackStore::charge_back(std::span<const KeyName> names, Instant now) {
  using Outcome = ChargeBack::Outcome;
  const Instant at = decided_at(now);
  std::vector<Request> requests;
  std::vector<Subject> subjects;
  Batch::Owners owners;
  std::vector<ChargeBack::Charge> taken;
  if (!names.empty()) taken = charges_.take(names, at);
  const bool has_turn = charges_.may_charge(at) && !is_charging_.exchange(true);
  if (has_turn) std::ranges::move(charges_.take(at), std::back_inserter(taken));
  for (ChargeBack::Charge& charge : taken) {
    const auto space = space_of(charge);
    Request request{.limit = charge.limit.get(), .key = charge.key};
    LocalFallback::Due due{.lost = charge.units};
    if (space != nullptr) {
      request.space = space->local.get();
      due = local_->due(charge.name.key, request, charge.units, at);
    }
    count_not_charged_back(due.lost);
    charges_.settle(charge, charge.units - due.charge, Outcome::kOver, at);
    if (due.charge == 0) continue;
    request.operation = Operation::kCharge;
    request.cost = due.charge;
    request.space = space->inner.get();
    requests.push_back(request);
    subjects.push_back({.space = space.get(),
                        .key = charge.name.key,
                        .admitted = due.charge,
                        .entry = charge.entry});
    owners.push_back(charge.limit);
    owners.push_back(space);
  }
  if (requests.empty()) {
    if (has_turn) is_charging_ = false;
    return;
  }
  auto batch = std::make_unique<Batch>(requests, Batch::Mode::kEach, now);
  batch->outer.store = this;
  batch->outer.stage = Batch::Stage::kCharge;
  batch->outer.subjects.assign(subjects.begin(), subjects.end());
  batch->outer.sent = at;
  batch->keep_only(std::move(owners));
  want_parts(*batch);
  if (has_turn) {
    batch->completion = [this](const Batch& answered) {
      is_charging_ = false;
      const auto answers = [](const Decision& one) { return one.source == Source::kStore; };
      if (std::ranges::any_of(answered.decisions(), answers)) charge_back({}, answered.now());
    };
  }
  inner_->submit(std::move(batch));
}

// What became of the units of batch.requests()[place] that were admitted before.
void FallbackStore::settle_admitted(Batch& batch, std::size_t place, const Decision& answer,
                                    Instant arrived) {
  using Outcome = ChargeBack::Outcome;
  Subject& subject = batch.outer.subjects[place];
  const Request& request = batch.requests()[place];
  const bool is_charge = batch.outer.stage == Batch::Stage::kCharge;
  const std::int64_t units = std::exchange(subject.admitted, 0);
  if (units == 0) return;
  const ChargeBack::Charge charge{.name = name_of(subject), .entry = subject.entry};
  if (may_be_executed(answer)) {
    if (!is_charge) charges_.settle(charge, units, Outcome::kOver, arrived);
    return count_not_charged_back(units);
  }
  std::int64_t charged = 0;
  if (answer.allowed) {
    charged = request.operation == Operation::kTakeUpTo ? answer.taken : request.cost;
    charged = std::min(charged, units);
    charges_.settle(charge, charged, Outcome::kOver, arrived);
    counters_.charged_back.fetch_add(static_cast<std::uint64_t>(charged),
                                     std::memory_order_relaxed);
  }
  if (charged == units) return;
  const Outcome rest = is_charge ? Outcome::kNotSent : Outcome::kNotCharged;
  charges_.settle(charge, units - charged, rest, arrived);
}

// What the store has told of the key of batch.requests()[place]. REQUIRES: answers_ is not null;
// the limit lends no permits.
void FallbackStore::record(const Batch& batch, std::size_t place, const Decision& answer,
                           Instant arrived) {
  const Request& request = batch.requests()[place];
  const KeyName name = name_of(batch.outer.subjects[place]);
  // As before sending: a denial that was recorded while this refund or reset was in flight may be
  // older than it.
  ask_again_after(request, name);
  if (request.operation == Operation::kBlock) return;  // It hides how many units remain.
  // Where a store has several connections, a group comes by that of its first key: since it was
  // sent, its other keys may have had newer answers by theirs. A late answer may come by the
  // connection to a server that the key has left since. (But what this process gives back it sees
  // at once.)
  const bool gives_back =
      request.operation == Operation::kReset || request.operation == Operation::kRefund;
  const bool is_late = batch.outer.stage != Batch::Stage::kAsked;
  const bool is_newest = is_late ? gives_back : !batch.is_group();
  const Instant sent = batch.outer.sent;
  answers_->record(name, request, answer,
                   batch.now() == kStoreTime ? std::optional(sent) : std::nullopt, arrived,
                   is_newest ? kMaxInt64 : sent);
}

Watch FallbackStore::watch(const std::shared_ptr<Space>& space, std::string_view key,
                           std::function<void()> released) {
  return inner_->watch(static_cast<const FallbackSpace&>(*space).inner, key, std::move(released));
}

void FallbackStore::add_counts(std::vector<DecisionCount>& counts) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, held] : spaces_) {
    if (const auto space = held.space.lock()) space->add_counts(name, counts);
  }
}

void FallbackStore::add_health(StoreHealth& health) const {
  inner_->add_health(health);
  health.answered_by_cache = counters_.answered_by_cache.load(std::memory_order_relaxed);
  health.answered_by_local = counters_.answered_by_local.load(std::memory_order_relaxed);
  health.answered_by_policy = counters_.answered_by_policy.load(std::memory_order_relaxed);
  health.unanswered = counters_.unanswered.load(std::memory_order_relaxed);
  health.charged_back = counters_.charged_back.load(std::memory_order_relaxed);
  health.not_charged_back = counters_.not_charged_back.load(std::memory_order_relaxed);
}

}  // namespace sluice

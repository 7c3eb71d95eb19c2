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

namespace sluice {
namespace {

template <class T>
using OneOrMore = boost::container::small_vector<T, 1>;

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
class FallbackStore::FallbackSpace final : public Space {
 public:
  static FallbackSpace& of(const Request& request) {
    return static_cast<FallbackSpace&>(*request.space);
  }
  /// Replaces the spaces of the requests by those of the inner store. leave() takes the result, and
  /// puts the former spaces back.
  static OneOrMore<FallbackSpace*> enter(Batch& batch) {
    OneOrMore<FallbackSpace*> spaces;
    for (Request& request : batch.requests()) {
      spaces.push_back(&of(request));
      request.space = spaces.back()->inner.get();
    }
    return spaces;
  }
  static void leave(Batch& batch, const OneOrMore<FallbackSpace*>& spaces) {
    for (std::size_t i = 0; i < spaces.size(); ++i) batch.requests()[i].space = spaces[i];
  }

  DenyCache::Name name_of(const KeyHash& key) const {
    return {.space = number.load(std::memory_order_acquire), .key = key};
  }
  /// Whether the operation concerns the deny cache: it answers takes, and refunds and resets clear
  /// it. A block or a charge admits nothing, so it changes nothing there. Permits are not cached:
  /// one may be released long before retry_after.
  bool is_cached(Operation operation) const {
    return !lends && (operation == Operation::kTake || operation == Operation::kRefund ||
                      operation == Operation::kReset);
  }

  std::shared_ptr<Space> inner;
  std::shared_ptr<Space> local;
  /// Identifies the space in the deny cache. With another number, all its denials are forgotten.
  std::atomic<std::uint64_t> number{0};
  std::string expression;
  /// Whether its limits lend permits; the same for all limits that share its states.
  bool lends = false;
};

/// Handles the inner store's answers to a batch: updates the deny cache, mirrors the answers into
/// the local states, and lets the policy decide the requests without an answer.
class FallbackStore::Settling {
 public:
  Settling(FallbackStore& store, Batch& batch, Instant sent)
      : store_(store), batch_(batch), sent_(sent) {}

  /// Returns whether requests are left unanswered because the policy is kRaise. Throws
  /// std::invalid_argument where a group cannot be asked together; its decision is then
  /// kUnavailable.
  bool run() {
    const std::span<Request> requests = batch_.requests();
    for (std::size_t i = 0; i < batch_.decisions().size(); ++i) {
      settle(batch_.is_together() ? requests : requests.subspan(i, 1), batch_.decisions()[i]);
    }
    mirror_changes();
    const bool raises = lost_ > 0 && policy() == OnFailure::kRaise;
    if (raises) {
      batch_.set_error("the store did not answer");
    } else if (!is_left_open_) {
      batch_.clear_error();
    }
    count(raises);
    return raises;
  }

 private:
  // Handles one decision: that of a request, or of a group.
  void settle(std::span<const Request> requests, Decision& decision) {
    const bool is_lost = decision.source == Source::kUnavailable;
    // Only the inner store may have given it: a permit with that id in the local states is another
    // one.
    if (requests[0].giver == Source::kUnavailable) {
      is_left_open_ = is_left_open_ || is_lost;
      return;
    }
    if (!batch_.is_together()) learn(requests[0], decision);
    if (is_lost) {
      ++lost_;
      mirror_changes();  // In the order of the batch.
      decision = answer_by_policy(requests);
    } else {
      // One by one: a local share that is used up must not keep the other requests from being
      // mirrored.
      for (const Request& request : requests) note_change(request, decision);
    }
  }

  void learn(const Request& request, const Decision& answer) {
    const bool is_take = request.operation == Operation::kTake;
    if (!store_.denials_ || (is_take && answer.allowed)) return;
    const FallbackSpace& space = FallbackSpace::of(request);
    if (!space.is_cached(request.operation)) return;
    const DenyCache::Name name = space.name_of(hash_key(request.key, store_.secret_));
    if (!is_take) {
      // Cleared again (as before sending), because denials that arrived meanwhile may be older than
      // this refund or reset.
      store_.denials_->clear(name, store_.clock_.now());
    } else if (answer.source == Source::kStore && batch_.now() == kStoreTime) {
      store_.denials_->remember(name, request, sent_, answer);
    }
  }

  void note_change(const Request& request, const Decision& answer) {
    if (store_.local_ == nullptr) return;
    Request& change = changes_.emplace_back(request);
    change.parts = {};
    if (store_.local_->make_change(change, answer)) {
      change.space = FallbackSpace::of(request).local.get();
    } else {
      changes_.pop_back();
    }
  }

  void mirror_changes() {
    if (changes_.empty()) return;
    store_.local_->mirror({changes_.data(), changes_.size()}, sent_);
    changes_.clear();
  }

  // One request, or all of a group.
  Decision answer_by_policy(std::span<const Request> requests) {
    if (policy() == OnFailure::kRaise) return {.source = Source::kUnavailable};
    if (store_.local_ == nullptr) return policy_decision(policy(), requests);
    OneOrMore<Request> local(requests.begin(), requests.end());
    for (Request& request : local) request.space = FallbackSpace::of(request).local.get();
    const Instant now = store_.decided_at(batch_.now());
    if (!batch_.is_together()) return store_.local_->answer(local[0], now);
    return store_.local_->answer_all({local.data(), local.size()}, now);
  }

  void count(bool raises) {
    if (lost_ == 0) return;
    FallbackCounters& counters = store_.counters_;
    counters.unanswered.fetch_add(lost_, std::memory_order_relaxed);
    if (raises) return;
    auto& answered = store_.local_ ? counters.local_answers : counters.policy_answers;
    answered.fetch_add(lost_, std::memory_order_relaxed);
  }

  OnFailure policy() const { return store_.options_.on_failure; }

  FallbackStore& store_;
  Batch& batch_;
  const Instant sent_;
  std::size_t lost_ = 0;
  bool is_left_open_ = false;  // A request that only the inner store can answer has no answer.
  OneOrMore<Request> changes_;
};

FallbackStore::FallbackStore(std::shared_ptr<Store> inner, const FallbackOptions& options)
    : options_(options),
      local_(make_local(options)),
      secret_(local_ ? local_->store().secret() : HashSecret::random()),
      inner_(std::move(inner)) {
  if (options.deny_cache) denials_.emplace();
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

// Returns of what the policy or the local states gave are answered here, without the inner store.
bool FallbackStore::is_answered_here(const Request& request, Instant now, Instant& sent,
                                     Decision& decision) {
  if (is_return(request.operation) && request.giver == Source::kPolicy) {
    decision = policy_decision(OnFailure::kAllow, {&request, 1});
    return true;
  }
  if (is_return(request.operation) && request.giver == Source::kLocal && local_ != nullptr) {
    Request local = request;
    local.space = FallbackSpace::of(request).local.get();
    decision = local_->answer(local, decided_at(now));
    return true;
  }
  return is_denied_again(request, now, sent, decision);
}

// Called in the order of the batch: a take after a refund or reset of its key is not denied from
// the cache.
bool FallbackStore::is_denied_again(const Request& request, Instant now, Instant& sent,
                                    Decision& decision) {
  const FallbackSpace& space = FallbackSpace::of(request);
  const KeyHash key = hash_key(request.key, secret_);
  if (local_ != nullptr) local_->prefetch(*space.local, key);
  if (!denials_ || !space.is_cached(request.operation)) return false;
  if (request.operation != Operation::kTake) {
    denials_->clear(space.name_of(key), clock_.now());
    return false;
  }
  const DenyCache::Name name = space.name_of(key);
  // Of a denial that is remembered, the decisions of its parts are not.
  if (now != kStoreTime || !request.parts.empty() || !denials_->knows(name)) return false;
  // For a key in the cache the exact time is used, so that even a denial of nanoseconds ends in
  // time.
  sent = clock_.now();
  if (!denials_->denies(name, request, sent, decision)) return false;
  counters_.cached_denials.fetch_add(1, std::memory_order_relaxed);
  return true;
}

// As Settling::run().
bool FallbackStore::ask_and_wait(Batch& batch, Instant sent) {
  const auto spaces = FallbackSpace::enter(batch);
  try {
    if (batch.is_together()) {
      batch.decisions()[0] = inner_->decide_all(batch.requests(), batch.now());
    } else {
      inner_->decide(batch.requests(), batch.now(), batch.decisions());
    }
  } catch (const StoreError& error) {
    batch.set_error(error.what());
  }
  FallbackSpace::leave(batch, spaces);
  return Settling(*this, batch, sent).run();
}

void FallbackStore::decide(std::span<const Request> requests, Instant now,
                           std::span<Decision> decisions) {
  assert(decisions.size() >= requests.size());
  Instant sent = sent_at(now);
  OneOrMore<Request> asked;
  OneOrMore<Decision*> answers;
  for (std::size_t i = 0; i < requests.size(); ++i) {
    if (is_answered_here(requests[i], now, sent, decisions[i])) continue;
    asked.push_back(requests[i]);
    answers.push_back(&decisions[i]);
  }
  if (asked.empty()) return;
  Batch batch({asked.data(), asked.size()}, Batch::Mode::kEach, now);
  const bool raises = ask_and_wait(batch, sent);
  for (std::size_t i = 0; i < answers.size(); ++i) *answers[i] = batch.decisions()[i];
  batch.copy_parts(asked);
  if (raises) throw StoreError(batch.error());
}

Decision FallbackStore::decide_all(std::span<const Request> requests, Instant now) {
  Batch batch(requests, Batch::Mode::kTogether, now);
  if (ask_and_wait(batch, sent_at(now))) throw StoreError(batch.error());
  batch.copy_parts(requests);
  return batch.decisions()[0];
}

void FallbackStore::submit(std::unique_ptr<Batch> batch) {
  Instant sent = sent_at(batch->now());
  if (batch->is_together()) return pass_on(std::move(batch), sent);
  OneOrMore<std::size_t> asked;
  for (std::size_t i = 0; i < batch->requests().size(); ++i) {
    if (!is_answered_here(batch->requests()[i], batch->now(), sent, batch->decisions()[i])) {
      asked.push_back(i);
    }
  }
  if (asked.empty()) return Batch::complete(std::move(batch));
  if (asked.size() == batch->requests().size()) return pass_on(std::move(batch), sent);

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
  pass_on(std::move(rest), sent);
}

// Submits the whole batch to the inner store.
void FallbackStore::pass_on(std::unique_ptr<Batch> batch, Instant sent) {
  batch->completion = [this, sent, spaces = FallbackSpace::enter(*batch),
                       caller = std::move(batch->completion)](Batch& answered) mutable {
    FallbackSpace::leave(answered, spaces);
    try {
      Settling(*this, answered, sent).run();
    } catch (const std::invalid_argument& error) {
      answered.clear_error();
      answered.set_error(error.what());
    }
    run_completion(caller, answered);
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

}  // namespace sluice

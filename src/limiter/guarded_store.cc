#include "limiter/guarded_store.h"

#include <algorithm>
#include <array>
#include <memory_resource>
#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "stores/memory/memory_store.h"

namespace sluice {
namespace {

// As many requests as a server reads at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;

std::unique_ptr<Store> make_local(const GuardOptions& options) {
  if (options.local_share < 1 || options.local_share > GuardOptions::kMostShares) {
    throw StoreError("guarded store: local_share is 1/" + std::to_string(options.local_share) +
                     ", but it is from 1/1 to 1/" + std::to_string(GuardOptions::kMostShares));
  }
  if (options.on_failure != OnFailure::kLocal) return nullptr;
  return std::make_unique<MemoryStore>(
      MemoryOptions{.max_bytes = options.local_bytes, .table = {}});
}

// Whether the request, having been admitted, has changed a state.
bool moves(const Request& request) {
  return request.operation != Operation::kTake || request.cost > 0;
}

std::string sentence(std::string fault) {
  return fault.empty() ? "the store did not answer" : std::move(fault);
}

}  // namespace

/// A space of the store inside, and the one where this process keeps its own states.
class GuardedStore::GuardedSpace final : public Space {
 public:
  std::shared_ptr<Space> inner;
  std::shared_ptr<Space> local;
  /// What the deny cache knows it by: another one, and all its denials are forgotten.
  std::atomic<std::uint64_t> number{0};
  std::string expression;

  static GuardedSpace& of(const Request& request) {
    return static_cast<GuardedSpace&>(*request.space);
  }
};

/// One batch, or group, on its way through the guard: what is left to ask of the store inside, and
/// what then becomes of its answers.
class GuardedStore::Round {
 public:
  struct Question {
    std::span<const Request> requests;
    std::span<Decision> decisions;
    bool together = false;
    Instant now = kStoreTime;
  };
  /// Of a request that was asked.
  struct Mark {
    DenyCache::Ticket ticket;
    std::uint32_t position = 0;
    bool answered = true;
  };

  /// Answers what the deny cache can. `room` outlives it; where it is less than room_for() the
  /// requests, the system is asked for more.
  Round(GuardedStore& guard, const Question& question, std::span<std::byte> room);

  static constexpr std::size_t room_for(std::size_t requests) {
    return requests * (sizeof(Request) + sizeof(Mark) + sizeof(Decision));
  }

  /// What to ask, and where the answers go. What is not written there is unanswered.
  std::span<const Request> requests() const { return asked_; }
  std::span<Decision> answers() {
    return std::span(answers_).first(question_.together ? 1 : asked_.size());
  }

  /// All answers are there: learns from them, and decides what has none by the policy. Returns
  /// whether the policy is to raise, and there is such. Throws what a local group throws; its
  /// decision is then kUnanswered.
  bool finish();

 private:
  bool uses_cache() const { return guard_.denials_.has_value() && !question_.together; }
  bool is_denied_again(std::uint32_t position, DenyCache::Ticket& ticket);
  void learn(const Request& request, const Mark& mark, const Decision& answer);
  Request to_local(const Request& request) const;
  Decision from_local(Decision decision, std::int64_t cost) const;
  Instant local_now(bool lost) const;
  void finish_each();
  void finish_together();

  GuardedStore& guard_;
  const Question question_;
  const Instant sent_;
  std::size_t lost_ = 0;
  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::vector<Request> asked_{&memory_};
  std::pmr::vector<Mark> marks_{&memory_};
  std::pmr::vector<Decision> answers_{&memory_};
};

/// Room for a round that ends before the call that began it.
struct GuardedStore::UsualRoom {
  alignas(std::max_align_t) std::array<std::byte, Round::room_for(kUsualBatch)> bytes;
};

GuardedStore::Round::Round(GuardedStore& guard, const Question& question, std::span<std::byte> room)
    : guard_(guard),
      question_(question),
      sent_(question.now == kStoreTime ? guard.clock_.now() : question.now),
      memory_(room.data(), room.size()) {
  const std::size_t size = question_.requests.size();
  asked_.reserve(size);
  marks_.reserve(size);
  for (std::uint32_t i = 0; i < size; ++i) {
    Mark mark{.ticket = {}, .position = i};
    if (uses_cache() && is_denied_again(i, mark.ticket)) continue;
    Request& request = asked_.emplace_back(question_.requests[i]);
    request.space = GuardedSpace::of(request).inner.get();
    marks_.push_back(mark);
  }
  answers_.resize(asked_.size(), Decision{.source = Source::kUnanswered});
}

// In the order of the batch: what a refund or reset makes possible is asked after it.
bool GuardedStore::Round::is_denied_again(std::uint32_t position, DenyCache::Ticket& ticket) {
  const Request& request = question_.requests[position];
  DenyCache& denials = *guard_.denials_;
  const std::uint64_t space = GuardedSpace::of(request).number.load(std::memory_order_acquire);
  ticket = denials.take_ticket({.space = space, .key = request.key});
  if (request.operation != Operation::kTake) {
    denials.clear(ticket);
    return false;
  }
  if (question_.now != kStoreTime ||
      !denials.denies(ticket, request, sent_, question_.decisions[position])) {
    return false;
  }
  guard_.tally_.cached_denials.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void GuardedStore::Round::learn(const Request& request, const Mark& mark, const Decision& answer) {
  if (!uses_cache()) return;
  DenyCache& denials = *guard_.denials_;
  if (request.operation != Operation::kTake) {
    // Once more: what was denied since it was sent may have been denied before it was done.
    denials.clear(mark.ticket);
  } else if (!answer.allowed && answer.source == Source::kStore && question_.now == kStoreTime) {
    denials.remember(mark.ticket, request, sent_, answer);
  }
}

// A process that answers for one Nth of a limit counts each unit N times.
Request GuardedStore::Round::to_local(const Request& request) const {
  Request local = request;
  local.space = GuardedSpace::of(request).local.get();
  local.cost = checked_multiply(request.cost, guard_.options_.local_share).value_or(kMaxInt64);
  return local;
}

Decision GuardedStore::Round::from_local(Decision decision, std::int64_t cost) const {
  decision.source = Source::kLocal;
  // What is beyond the share may be within the limit: the store may be back by then.
  if (decision.retry_after == kNever && cost <= decision.limit) decision.retry_after = kPolicyWait;
  decision.limit /= guard_.options_.local_share;
  decision.remaining /= guard_.options_.local_share;
  return decision;
}

// What the store let wait for an answer in vain is judged when that is known.
Instant GuardedStore::Round::local_now(bool lost) const {
  return lost && question_.now == kStoreTime ? guard_.clock_.now() : sent_;
}

bool GuardedStore::Round::finish() {
  if (question_.together) {
    finish_together();
  } else {
    finish_each();
  }
  if (lost_ == 0) return false;
  Tally& tally = guard_.tally_;
  tally.unanswered.fetch_add(lost_, std::memory_order_relaxed);
  if (guard_.options_.on_failure == OnFailure::kRaise) return true;
  auto& answered = guard_.local_ ? tally.local_answers : tally.policy_answers;
  answered.fetch_add(lost_, std::memory_order_relaxed);
  return false;
}

void GuardedStore::Round::finish_each() {
  const OnFailure policy = guard_.options_.on_failure;
  // Those that matter to the local states take the place of those that were asked, in order.
  std::size_t locals = 0;
  for (std::size_t i = 0; i < asked_.size(); ++i) {
    const Decision& answer = answers_[i];
    Mark mark = marks_[i];
    mark.answered = answer.source != Source::kUnanswered;
    const Request& request = question_.requests[mark.position];
    Decision& decision = question_.decisions[mark.position];
    decision = answer;
    learn(request, mark, answer);
    if (!mark.answered) {
      ++lost_;
      if (policy == OnFailure::kAllow || policy == OnFailure::kDeny) {
        decision = policy_decision(policy, {&request, 1});
      }
    }
    if (guard_.local_ && (!mark.answered || (answer.allowed && moves(request)))) {
      asked_[locals] = to_local(request);
      marks_[locals++] = mark;
    }
  }
  if (locals == 0) return;
  guard_.local_->decide(std::span(asked_).first(locals), local_now(lost_ > 0),
                        std::span(answers_).first(locals));
  for (std::size_t i = 0; i < locals; ++i) {
    if (marks_[i].answered) continue;
    const std::uint32_t position = marks_[i].position;
    question_.decisions[position] = from_local(answers_[i], question_.requests[position].cost);
  }
}

void GuardedStore::Round::finish_together() {
  const OnFailure policy = guard_.options_.on_failure;
  const Decision answer = answers_[0];
  Decision& decision = question_.decisions[0];
  decision = answer;
  lost_ = answer.source == Source::kUnanswered ? 1 : 0;
  if (lost_ > 0 && (policy == OnFailure::kAllow || policy == OnFailure::kDeny)) {
    decision = policy_decision(policy, question_.requests);
  }
  if (!guard_.local_ || (lost_ == 0 && !answer.allowed)) return;
  for (std::size_t i = 0; i < asked_.size(); ++i) asked_[i] = to_local(question_.requests[i]);
  if (lost_ > 0) {
    std::int64_t cost = 0;
    for (const Request& request : question_.requests) cost = std::max(cost, request.cost);
    decision = from_local(guard_.local_->decide_all(asked_, local_now(true)), cost);
  } else {
    // Each for itself: a share that is used up does not keep the others from being noted.
    guard_.local_->decide(asked_, local_now(false), answers_);
  }
}

/// An inquiry's round while the store inside has it. Owns itself then, until it is answered.
class GuardedStore::GuardedInquiry final : public Inquiry {
 public:
  static std::unique_ptr<GuardedInquiry> make(GuardedStore& guard, Inquiry& asker) {
    const std::size_t room = Round::room_for(asker.requests.size());
    return std::unique_ptr<GuardedInquiry>(new (room) GuardedInquiry(guard, asker, room));
  }

  static void operator delete(void* memory) { ::operator delete(memory); }

  /// What the asker finds in its inquiry. Returns whether something is left unanswered.
  bool finish() {
    const bool raises = round_.finish();
    if (raises) asker_.fault = sentence(std::move(fault));
    return raises;
  }

  void answered() noexcept override {
    Inquiry& asker = asker_;
    try {
      finish();
    } catch (const std::exception& error) {
      asker.fault = error.what();
    }
    delete this;
    asker.answered();
  }

 private:
  // What the round needs lies behind it: no more for one request than one needs, since many are
  // under way at the same time.
  static void* operator new(std::size_t bytes, std::size_t room) {
    return ::operator new(bytes + room);
  }
  static void operator delete(void* memory, std::size_t) { ::operator delete(memory); }

  GuardedInquiry(GuardedStore& guard, Inquiry& asker, std::size_t room)
      : asker_(asker),
        round_(guard,
               {.requests = asker.requests,
                .decisions = asker.decisions,
                .together = asker.together,
                .now = asker.now},
               {reinterpret_cast<std::byte*>(this + 1), room}) {
    requests = round_.requests();
    decisions = round_.answers();
    together = asker.together;
    now = asker.now;
  }

  Inquiry& asker_;
  Round round_;
};

GuardedStore::GuardedStore(std::shared_ptr<Store> inner, const GuardOptions& options)
    : options_(options), local_(make_local(options)), inner_(std::move(inner)) {
  if (options.deny_cache) denials_.emplace();
}

GuardedStore::~GuardedStore() = default;

std::shared_ptr<Space> GuardedStore::open_space(const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  auto inner = inner_->open_space(limit);
  auto local = local_ ? local_->open_space(limit) : nullptr;
  const auto found = spaces_.find(limit.space);
  auto space = found == spaces_.end() ? nullptr : found->second.lock();
  if (space && space->inner == inner && space->local == local) {
    if (!limit.varies && space->expression != limit.expression) {
      space->expression = limit.expression;
      space->number.store(++last_number_, std::memory_order_release);
    }
    return space;
  }
  if (spaces_.size() >= drop_at_) {
    std::erase_if(spaces_, [](const auto& row) { return row.second.expired(); });
    drop_at_ = std::max(drop_at_, 2 * spaces_.size());
  }
  space = std::make_shared<GuardedSpace>();
  space->inner = std::move(inner);
  space->local = std::move(local);
  space->number.store(++last_number_, std::memory_order_release);
  space->expression = limit.expression;
  spaces_[limit.space] = space;
  return space;
}

void GuardedStore::decide(std::span<const Request> requests, Instant now,
                          std::span<Decision> decisions) {
  UsualRoom room;
  Round round(*this, {.requests = requests, .decisions = decisions, .now = now}, room.bytes);
  if (round.requests().empty()) return;
  std::string fault;
  try {
    inner_->decide(round.requests(), now, round.answers());
  } catch (const StoreError& error) {
    fault = error.what();
  }
  if (round.finish()) throw StoreError(sentence(std::move(fault)));
}

Decision GuardedStore::decide_all(std::span<const Request> requests, Instant now) {
  Decision decision;
  UsualRoom room;
  Round round(*this,
              {.requests = requests, .decisions = {&decision, 1}, .together = true, .now = now},
              room.bytes);
  std::string fault;
  try {
    round.answers()[0] = inner_->decide_all(round.requests(), now);
  } catch (const StoreError& error) {
    fault = error.what();
  }
  if (round.finish()) throw StoreError(sentence(std::move(fault)));
  return decision;
}

bool GuardedStore::submit(Inquiry& inquiry) {
  auto guarded = GuardedInquiry::make(*this, inquiry);
  if (guarded->requests.empty()) return true;
  try {
    if (!inner_->submit(*guarded)) {
      static_cast<void>(guarded.release());  // It may have gone already.
      return false;
    }
  } catch (const StoreError& error) {
    guarded->fault = error.what();
    if (guarded->finish()) throw;
    return true;
  }
  guarded->finish();
  return true;
}

GuardCounters GuardedStore::counters() const {
  return {.cached_denials = tally_.cached_denials.load(std::memory_order_relaxed),
          .unanswered = tally_.unanswered.load(std::memory_order_relaxed),
          .local_answers = tally_.local_answers.load(std::memory_order_relaxed),
          .policy_answers = tally_.policy_answers.load(std::memory_order_relaxed)};
}

}  // namespace sluice

#include "limiter/guarded_store.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "algorithms/limit_definition.h"
#include "limiter/guard_round.h"

namespace sluice {
namespace {

// As many requests as a server reads at once need no memory from the system.
constexpr std::size_t kUsualBatch = 64;

std::unique_ptr<LocalStates> make_local(const GuardOptions& options) {
  if (options.local_share < 1 || options.local_share > GuardOptions::kMostShares) {
    throw StoreError("guarded store: local_share is 1/" + std::to_string(options.local_share) +
                     ", but it is from 1/1 to 1/" + std::to_string(GuardOptions::kMostShares));
  }
  if (options.on_failure != OnFailure::kLocal) return nullptr;
  return std::make_unique<LocalStates>(
      LocalStates::Options{.max_bytes = options.local_bytes, .shares = options.local_share});
}

// What the calling thread does now: tells inquiries of a store that they are answered.
struct Telling {
  const GuardedStore* guard = nullptr;
  Instant began = 0;  // By the store's clock.
};
constinit thread_local Telling telling;

// Whoever keeps memory that was let go of hides its later use from the address sanitizer.
#if defined(__SANITIZE_ADDRESS__)
#define SLUICE_KEEPS_NO_MEMORY
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SLUICE_KEEPS_NO_MEMORY
#endif
#endif
#ifdef SLUICE_KEEPS_NO_MEMORY
constexpr std::size_t kMostSpare = 0;
#else
constexpr std::size_t kMostSpare = InquiryListener::kMost;
#endif

// Pieces of memory of one size that this thread has let go of: as many as are told together, and
// then ask again. Beyond a few, malloc takes its time for them.
//
// Not destroyed, as objects that go later use it: on the main thread, those of static storage. It
// is closed instead, and keeps nothing from then on.
class SparePieces {
 public:
  void* take(std::size_t bytes) { return count_ > 0 ? pieces_[--count_] : ::operator new(bytes); }
  void leave(void* piece) {
    thread_local const Closing at_the_end(*this);
    if (count_ < room_) {
      pieces_[count_++] = piece;
    } else {
      ::operator delete(piece);
    }
  }

 private:
  class Closing {
   public:
    explicit Closing(SparePieces& pieces) : pieces_(pieces) {}
    ~Closing() { pieces_.close(); }
    Closing(const Closing&) = delete;
    Closing& operator=(const Closing&) = delete;

   private:
    SparePieces& pieces_;
  };

  void close() {
    room_ = 0;
    while (count_ > 0) ::operator delete(pieces_[--count_]);
  }

  std::array<void*, InquiryListener::kMost> pieces_{};
  std::size_t count_ = 0;
  std::size_t room_ = kMostSpare;
};
static_assert(std::is_trivially_destructible_v<SparePieces>);
constinit thread_local SparePieces spare_pieces;

std::string sentence(std::string fault) {
  return fault.empty() ? "the store did not answer" : std::move(fault);
}

}  // namespace

/// Room for a round that ends before the call that began it.
class GuardedStore::Room {
 public:
  explicit Room(std::size_t requests)
      : more_(requests > kUsualBatch
                  ? std::make_unique_for_overwrite<std::byte[]>(Round::room_for(requests))
                  : nullptr) {}

  std::byte* bytes() { return more_ ? more_.get() : usual_.data(); }

 private:
  alignas(std::max_align_t) std::array<std::byte, Round::room_for(kUsualBatch)> usual_;
  const std::unique_ptr<std::byte[]> more_;
};

/// An inquiry's round while the store inside has it. Answers take it over once it is under way.
class GuardedStore::GuardedInquiry final : public Inquiry {
 public:
  static std::unique_ptr<GuardedInquiry> make(GuardedStore& guard, Inquiry& asker) {
    const Size size{asker.requests.size()};
    return std::unique_ptr<GuardedInquiry>(new (size) GuardedInquiry(guard, asker));
  }

  static void operator delete(GuardedInquiry* inquiry, std::destroying_delete_t) {
    const Size size = inquiry->size_;
    inquiry->~GuardedInquiry();
    let_go(inquiry, size);
  }

  Inquiry& asker() { return asker_; }

  /// What finish() may add, as far as there is room.
  void expect(Followers& followers) const { round_.expect(followers); }

  /// What the asker finds in its inquiry. Returns whether something is left unanswered.
  bool finish(Followers& followers) {
    const bool raises = round_.finish(followers);
    if (raises) asker_.fault = sentence(std::move(fault));
    return raises;
  }

  void answered() noexcept override {
    Inquiry* const own = this;
    listener->answered({&own, 1});
  }

 private:
  struct Size {
    std::size_t requests;
  };

  // What the round needs lies behind it: no more for one request than one needs, since many are
  // under way at the same time.
  static void* operator new(std::size_t bytes, Size size) {
    const std::size_t all = bytes + Round::room_for(size.requests);
    return size.requests == 1 ? spare_pieces.take(all) : ::operator new(all);
  }
  static void operator delete(void* memory, Size size) { let_go(memory, size); }
  static void let_go(void* memory, Size size) {
    size.requests == 1 ? spare_pieces.leave(memory) : ::operator delete(memory);
  }

  GuardedInquiry(GuardedStore& guard, Inquiry& asker);

  const Size size_;
  Inquiry& asker_;
  Round round_;
};

/// Finishes inquiries that were under way, tells who asked, and ends them. Several together, so
/// that the local states follow them together.
class GuardedStore::Answers final : public InquiryListener {
 public:
  explicit Answers(const GuardedStore& guard) : guard_(guard) {}

  void answered(std::span<Inquiry* const> inquiries) noexcept override {
    Followers followers(guard_.local_.get());
    std::array<Inquiry*, kMost> askers;
    for (Inquiry* inquiry : inquiries) static_cast<GuardedInquiry&>(*inquiry).expect(followers);
    followers.fetch();
    for (std::size_t i = 0; i < inquiries.size(); ++i) {
      auto& inquiry = static_cast<GuardedInquiry&>(*inquiries[i]);
      askers[i] = &inquiry.asker();
      try {
        inquiry.finish(followers);
      } catch (const std::exception& error) {
        askers[i]->fault = error.what();
      }
    }
    followers.flush();
    for (Inquiry* inquiry : inquiries) delete static_cast<GuardedInquiry*>(inquiry);
    const Telling former = std::exchange(telling, {.guard = &guard_, .began = guard_.clock_.now()});
    for (Inquiry* asker : std::span(askers).first(inquiries.size())) asker->answered();
    telling = former;
  }

 private:
  const GuardedStore& guard_;
};

GuardedStore::GuardedInquiry::GuardedInquiry(GuardedStore& guard, Inquiry& asker)
    : size_{asker.requests.size()},
      asker_(asker),
      round_(guard,
             {.requests = asker.requests,
              .decisions = asker.decisions,
              .together = asker.together,
              .now = asker.now},
             reinterpret_cast<std::byte*>(this + 1)) {
  listener = guard.answers_.get();
  requests = round_.requests();
  decisions = round_.answers();
  together = asker.together;
  now = asker.now;
}

GuardedStore::GuardedStore(std::shared_ptr<Store> inner, const GuardOptions& options)
    : options_(options),
      local_(make_local(options)),
      secret_(local_ ? local_->secret() : HashSecret::random()),
      answers_(std::make_unique<Answers>(*this)),
      inner_(std::move(inner)) {
  if (options.deny_cache) denials_.emplace();
}

GuardedStore::~GuardedStore() = default;

std::shared_ptr<Space> GuardedStore::open_space(const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  auto inner = inner_->open_space(limit);
  auto local = local_ ? local_->store().open_space(limit) : nullptr;
  return open(limit, {.inner = std::move(inner), .local = std::move(local)});
}

std::shared_ptr<Space> GuardedStore::replace_space(const std::shared_ptr<Space>& held,
                                                   const LimitDefinition& limit) {
  const std::lock_guard lock(mutex_);
  // Nobody else can take a share of it while mutex_ is held, so a count of one stays one.
  const auto& own = static_cast<const GuardedSpace&>(*held);
  const bool alone = held.use_count() == 1;
  const auto open_in = [&](Store& store, const std::shared_ptr<Space>& mine) {
    return alone ? store.replace_space(mine, limit) : store.open_space(limit);
  };
  auto inner = open_in(*inner_, own.inner);
  auto local = local_ ? open_in(local_->store(), own.local) : nullptr;
  auto space = open(limit, {.inner = std::move(inner), .local = std::move(local)});
  if (alone && space != held) space->succeed(*held);
  return space;
}

std::shared_ptr<GuardedStore::GuardedSpace> GuardedStore::open(const LimitDefinition& limit,
                                                               Opened opened) {
  const auto found = spaces_.find(limit.space);
  auto space = found == spaces_.end() ? nullptr : found->second.lock();
  if (space && space->inner == opened.inner && space->local == opened.local) {
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
  space->inner = std::move(opened.inner);
  space->local = std::move(opened.local);
  space->number.store(++last_number_, std::memory_order_release);
  space->expression = limit.expression;
  space->lends = lends(limit);
  spaces_[limit.space] = space;
  return space;
}

template <class Asked>
bool GuardedStore::finish(Asked& asked) {
  Followers followers(local_.get());
  asked.expect(followers);
  followers.fetch();
  const bool raises = asked.finish(followers);
  followers.flush();
  return raises;
}

void GuardedStore::decide(std::span<const Request> requests, Instant now,
                          std::span<Decision> decisions) {
  Room room(requests.size());
  Round round(*this, {.requests = requests, .decisions = decisions, .now = now}, room.bytes());
  if (round.requests().empty()) return;
  std::string fault;
  try {
    inner_->decide(round.requests(), now, round.answers());
  } catch (const StoreError& error) {
    fault = error.what();
  }
  if (finish(round)) throw StoreError(sentence(std::move(fault)));
}

Decision GuardedStore::decide_all(std::span<const Request> requests, Instant now) {
  Decision decision;
  Room room(requests.size());
  Round round(*this,
              {.requests = requests, .decisions = {&decision, 1}, .together = true, .now = now},
              room.bytes());
  std::string fault;
  try {
    round.answers()[0] = inner_->decide_all(round.requests(), now);
  } catch (const StoreError& error) {
    fault = error.what();
  }
  if (finish(round)) throw StoreError(sentence(std::move(fault)));
  return decision;
}

bool GuardedStore::submit_inquiry(Inquiry& inquiry) {
  auto guarded = GuardedInquiry::make(*this, inquiry);
  if (guarded->requests.empty()) return true;
  try {
    if (!inner_->submit_inquiry(*guarded)) {
      static_cast<void>(guarded.release());  // It may have gone already.
      return false;
    }
  } catch (const StoreError& error) {
    guarded->fault = error.what();
    if (finish(*guarded)) throw;
    return true;
  }
  finish(*guarded);
  return true;
}

std::unique_ptr<Watch> GuardedStore::watch(const std::shared_ptr<Space>& space,
                                           std::string_view key, std::function<void()> released) {
  return inner_->watch(static_cast<const GuardedSpace&>(*space).inner, key, std::move(released));
}

bool GuardedStore::is_telling() {
  return telling.guard != nullptr;
}

Instant GuardedStore::asked_at() const {
  return telling.guard == this ? std::max(telling.began, clock_.now_cheaply()) : clock_.now();
}

GuardCounters GuardedStore::counters() const {
  return {.cached_denials = tally_.cached_denials.load(std::memory_order_relaxed),
          .unanswered = tally_.unanswered.load(std::memory_order_relaxed),
          .local_answers = tally_.local_answers.load(std::memory_order_relaxed),
          .policy_answers = tally_.policy_answers.load(std::memory_order_relaxed)};
}

}  // namespace sluice

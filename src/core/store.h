#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "core/batch.h"
#include "core/instant.h"
#include "sluice/decision.h"
#include "sluice/store.h"

namespace sluice {

struct LimitDefinition;

/// Where one limit's keys live: identity is (space, key). Opened by a store, and only that store
/// knows what is inside.
class Space {
 public:
  /// What those who ask keep beside the keys.
  class Companion {
   public:
    virtual ~Companion() = default;

   private:
    friend class Space;
    std::atomic<int> spaces_{1};
  };

  Space() = default;
  virtual ~Space() {
    Companion* const kept = companion_.load(std::memory_order_acquire);
    if (kept != nullptr && --kept->spaces_ == 0) delete kept;
  }
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  /// One for all who hold the space, made by the first who wants it; it lives as long as the space,
  /// and as those that succeed it. Thread-safe.
  template <class Made>
  Made& companion() {
    Companion* found = companion_.load(std::memory_order_acquire);
    if (found == nullptr) {
      auto made = std::make_unique<Made>();
      if (companion_.compare_exchange_strong(found, made.get())) found = made.release();
    }
    return static_cast<Made&>(*found);
  }

  /// Takes the place of `former`, and shares its companion, if it has one. REQUIRES: nobody else
  /// knows this space yet.
  void succeed(const Space& former) {
    Companion* const kept = former.companion_.load(std::memory_order_acquire);
    if (kept != nullptr) ++kept->spaces_;
    companion_.store(kept, std::memory_order_release);
  }

 private:
  std::atomic<Companion*> companion_{nullptr};
};

/// Ends what it stands for when it goes.
class Watch {
 public:
  virtual ~Watch() = default;
};

class Inquiry;

/// Is told of several inquiries together, where they are answered together: it then has to do
/// things once that each would have to do.
class InquiryListener {
 public:
  /// In place of Inquiry::answered() of each; from 1 to kMost. As that, it does little.
  virtual void answered(std::span<Inquiry* const> inquiries) noexcept = 0;

  static constexpr std::size_t kMost = 16;

 protected:
  ~InquiryListener() = default;
};

/// A batch given to a store that may answer it later. It, and whatever it refers to, stays where it
/// is until it is answered.
class Inquiry {
 public:
  virtual ~Inquiry() = default;

  std::span<const Request> requests;
  /// As many as requests; one where the requests are asked together.
  std::span<Decision> decisions;
  /// All or nothing, as decide_all().
  bool together = false;
  Instant now = kStoreTime;
  /// Where some of the decisions are kUnanswered: one sentence that says why, for the first.
  std::string fault;
  /// Where it is not null, a store that answers later may tell it instead. Outlives the inquiry.
  InquiryListener* listener = nullptr;

  /// All decisions are made. Called once, on whichever thread made the last of them, and does
  /// little: others wait for that thread. The inquiry may have gone when it returns, and the spaces
  /// it asked about with it.
  virtual void answered() noexcept = 0;
};

/// Finds states, runs transitions on them and commits, atomically. Thread-safe throughout.
///
/// The batch is the unit; one decision is a batch of one.
///
/// A store that has to ask another machine answers within its deadline. What that machine did not
/// answer is Source::kUnanswered: not allowed, and it may have been charged nevertheless.
class Store {
 public:
  virtual ~Store() = default;

  /// The space in which `limit` keeps its keys: the same one for the same name until nobody holds
  /// it and the store needs its place. Where the space has states that this limit cannot read
  /// (another algorithm, another window), its keys start fresh if nobody else holds it. Throws
  /// StoreError if somebody does, or where a bound is reached.
  virtual std::shared_ptr<Space> open_space(const LimitDefinition& limit) = 0;

  /// As open_space(), for who holds the space of that name by `held` alone and goes on in what is
  /// returned: it does not count as somebody else. So where nobody else does, and `limit` cannot
  /// read the states, the result is another space, whose keys are fresh; it succeeds that one.
  virtual std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& /*held*/,
                                               const LimitDefinition& limit) {
    return open_space(limit);
  }

  /// Answers requests[i] in decisions[i], in order, as if one after the other, all at the instant
  /// `now` or, given kStoreTime, by the store's clock.
  /// REQUIRES: decisions.size() >= requests.size(); all spaces are of this store; costs >= 0;
  /// 0 <= now < kEndOfTime, or kStoreTime. A limit of permits is only taken from (cost 0 or 1),
  /// blocked, reset, renewed and released; any other, neither renewed nor released.
  /// Throws StoreError where not all could be answered: all others are decided, these are
  /// kUnanswered. (A memory store in virtual time that is full: the requests before the one that
  /// found no room are then decided, it and those after it are left as they were, uncharged.)
  virtual void decide(std::span<const Request> requests, Instant now,
                      std::span<Decision> decisions) = 0;

  /// Takes from all or from none, in one atomic step. The answer: limit and remaining of the
  /// request with least remaining (the first such), the longest retry_after of those that deny
  /// (kNever if it is any's), the longest reset_after and delay. REQUIRES: as decide(); at least
  /// one request; each takes. Throws std::invalid_argument, nothing charged, where two requests
  /// name the same limit and key, there are more than kMaxTogether, or the store cannot take from
  /// all of them in one step; StoreError where it could not be answered.
  virtual Decision decide_all(std::span<const Request> requests, Instant now) = 0;

  /// Asks without waiting. True: all is decided, answered() will not be called. False: answered()
  /// will be, on another thread perhaps and perhaps before this returns. Throws, as the two above,
  /// only where it returns at once; what is unanswered later is told by Inquiry::fault.
  virtual bool submit_inquiry(Inquiry& inquiry) {
    if (inquiry.together) {
      inquiry.decisions[0] = decide_all(inquiry.requests, inquiry.now);
    } else {
      decide(inquiry.requests, inquiry.now, inquiry.decisions);
    }
    return true;
  }

  /// Takes the batch over and does not wait for another machine: its completion is called once,
  /// within this call or later on the store's worker thread. What the store could not answer is
  /// kUnanswered, and Batch::error() says why. REQUIRES: as decide() or decide_all(); the batch has
  /// a completion. Throws std::invalid_argument, as decide_all(), before anything is asked: the
  /// completion is then not called.
  virtual void submit(std::unique_ptr<Batch> batch);

  /// Whether submit() may return false, so that what is asked must outlive the call. Always the
  /// same for one store.
  virtual bool answers_later() const { return false; }

  /// Calls `released` whenever a permit of the key has been given back elsewhere while all were
  /// held, and once whenever it has become certain that this will be told; from some thread, with
  /// no lock of the store held, until the watch is gone (not while its destructor runs, and not
  /// after). Some calls may be missed. Null where the store cannot tell, and never called where it
  /// may not: ask again. Throws nothing.
  virtual std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& /*space*/,
                                       std::string_view /*key*/,
                                       std::function<void()> /*released*/) {
    return nullptr;
  }

  /// The store's clock.
  virtual Instant now() const = 0;
};

inline constexpr std::size_t kMaxTogether = 16;

}  // namespace sluice

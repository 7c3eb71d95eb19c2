#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/batch.h"
#include "core/instant.h"
#include "sluice/decision.h"
#include "sluice/store.h"

namespace sluice {

struct LimitDefinition;
struct DecisionCount;
struct StoreHealth;

/// Where one limit's keys live in a store: (space, key) identifies a state. Each store derives its
/// own type from it.
class Space {
 public:
  Space() = default;
  virtual ~Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  /// An object that the users of this space share, for example the queues of waiting callers; it
  /// has the same type for all of them. The first call makes it, with its arguments. It lives as
  /// long as this space and the spaces that succeed it. Thread-safe.
  template <class Made, class... Args>
  std::shared_ptr<Made> attachment(const Args&... args) {
    const std::lock_guard lock(attachment_mutex_);
    if (attachment_ == nullptr) attachment_ = std::make_shared<Made>(args...);
    return std::static_pointer_cast<Made>(attachment_);
  }

  /// Takes the place of `former`, and shares its attachment, if it has one. REQUIRES: no other
  /// thread knows this space yet.
  void succeed(const Space& former) {
    const std::lock_guard lock(former.attachment_mutex_);
    attachment_ = former.attachment_;
  }

  /// Whether callers hold it, besides one that holds `held` (see Store::open_space()).
  bool has_others(const std::shared_ptr<Space>& held) const {
    return holders_ > (this == held.get() ? 1 : 0);
  }
  /// The space for one more caller, who holds it as long as there is a copy of the result; `held`,
  /// if that is this space. Called by the store with the lock with which it asks has_others().
  static std::shared_ptr<Space> hold(std::shared_ptr<Space> space,
                                     const std::shared_ptr<Space>& held = nullptr);

 private:
  mutable std::mutex attachment_mutex_;
  std::shared_ptr<void> attachment_;  // guarded by attachment_mutex_
  std::atomic<int> holders_{0};       // Callers of open_space() that hold a share of the result.
};

/// Stops the calls of Store::watch() when it is destroyed. It is not copied.
using Watch = std::shared_ptr<const void>;

/// Finds states, runs transitions on them and commits, atomically. Thread-safe throughout.
///
/// The batch is the unit; one decision is a batch of one.
///
/// A store on another machine answers within its deadline. A request that the machine did not
/// answer has Source::kUnavailable: not allowed, although it may have been charged.
class Store {
 public:
  virtual ~Store() = default;

  /// The space in which `limit` keeps its keys. The same name gives the same space until no caller
  /// holds it and the store needs its place. If the space has states that this limit cannot read
  /// (another algorithm, another window), its keys start fresh, unless another caller holds it:
  /// then it throws StoreError. Also throws StoreError if a bound of the store is reached. Also for
  /// a space that is open already, the store may make room for another limit. The caller holds the
  /// space as long as there is a copy of the result; all copies count as one.
  std::shared_ptr<Space> open_space(const LimitDefinition& limit) {
    return replace_space(nullptr, limit);
  }

  /// As open_space(), for a caller that holds `held`, the space of that name, and will use the
  /// result instead: its own share of `held` does not count. So if no other caller holds the space
  /// and `limit` cannot read its states, the result is a new space with fresh keys, which succeeds
  /// `held`. If `held` is null, the same as open_space().
  virtual std::shared_ptr<Space> replace_space(const std::shared_ptr<Space>& held,
                                               const LimitDefinition& limit) = 0;

  /// Answers requests[i] in decisions[i], in order, as if one after the other, all at the instant
  /// `now` or, given kStoreTime, by the store's clock.
  /// REQUIRES: decisions.size() >= requests.size(); all spaces are of this store; costs >= 0;
  /// 0 <= now < kEndOfTime, or kStoreTime. A limit of permits is only taken from (cost 0 or 1),
  /// blocked, reset, renewed and released; any other, neither renewed nor released.
  /// Throws StoreError if some requests could not be answered: their decisions are then
  /// kUnavailable, and all others are decided. (A memory store in virtual time throws it if it is
  /// full: the requests before the one that found no room are decided then; that one and those
  /// after it are not charged, and their decisions are unchanged.)
  virtual void decide(std::span<const Request> requests, Instant now,
                      std::span<Decision> decisions) = 0;
  /// The same for one request.
  Decision decide_one(const Request& request, Instant now = kStoreTime) {
    Decision decision;
    decide({&request, 1}, now, {&decision, 1});
    return decision;
  }

  /// Takes from all or from none, in one atomic step. The answer is that of the binding request
  /// (see Decision::binding), with the longest delay. A list of one is answered as decide() does.
  /// REQUIRES: as decide(); at least one request; each takes. Throws std::invalid_argument, with
  /// nothing charged, if a limit lends permits, two requests name the same limit and key, there are
  /// more than kMaxTogether, or the store cannot take from all of them in one step. Throws
  /// StoreError if the store could not answer: `decision` is then kUnavailable.
  virtual void decide_all(std::span<const Request> requests, Instant now, Decision& decision) = 0;
  Decision decide_all(std::span<const Request> requests, Instant now) {
    Decision decision;
    decide_all(requests, now, decision);
    return decision;
  }

  /// Takes the batch over and does not wait for another machine: its completion is called once,
  /// within this call or later on the store's worker thread (if a completion submits it, perhaps on
  /// another thread that calls this store), or while the store is destroyed, on the thread that
  /// destroys it. Requests that the store could not answer are kUnavailable, and Batch::error()
  /// says why. REQUIRES: as decide() or decide_all(); the batch has a completion. Throws
  /// std::invalid_argument as decide_all(); the store has then asked nothing, and does not call the
  /// completion.
  virtual void submit(std::unique_ptr<Batch> batch);

  /// As submit(), but returns when the completion has run and is destroyed, with the shares that
  /// the batch held. The completion may run on any thread that calls this store, so it takes no
  /// lock that such a thread may hold; the calling thread may work for other callers meanwhile. May
  /// throw std::logic_error if a completion calls it.
  virtual void submit_and_wait(std::unique_ptr<Batch> batch);

  /// Whether submit() may return before the completion is called. Always the same for one store.
  virtual bool answers_later() const { return false; }

  /// Calls `released` each time that this or another process releases a permit of the key while all
  /// permits are held, and once each time that a subscription to these releases has begun. It is
  /// called on any thread, with no lock of the store held, until the watch begins to be destroyed.
  /// Releases may be missed, so the caller also asks again from time to time. Returns null if the
  /// store never reports releases. Throws nothing.
  virtual Watch watch(const std::shared_ptr<Space>& /*space*/, std::string_view /*key*/,
                      std::function<void()> /*released*/) {
    return nullptr;
  }

  /// Sets what is called each time that the store can be asked, at first or again: after it was
  /// lost, for example. It is called on the store's own thread, until the store is destroyed. A
  /// store that can always be asked does not call it. REQUIRES: called once.
  virtual void on_up(std::function<void()> /*up*/) {}

  /// The store's clock.
  virtual Instant now() const = 0;

  /// The number of keys that have a state, including keys that have become fresh since and are not
  /// forgotten yet. Nothing if the store would have to ask another machine.
  virtual std::optional<std::uint64_t> count_keys() { return std::nullopt; }

  /// The bytes that the keys' states take. Nothing if the store would have to ask another machine.
  virtual std::optional<std::uint64_t> count_bytes() { return std::nullopt; }

  /// Sets the members of `health` that this store knows, and may clear the others: a store around a
  /// store calls it for the inner one first, and then sets its own.
  virtual void add_health(StoreHealth& /*health*/) const {}

  /// Adds what decision_counts() returns.
  virtual void add_counts(std::vector<DecisionCount>& /*counts*/) const {}
};

/// A store that asks another one, or another machine, by batches: a caller of decide() and
/// decide_all() waits for one in submit_and_wait().
class BatchStore : public Store {
 public:
  void decide(std::span<const Request> requests, Instant now,
              std::span<Decision> decisions) override;
  using Store::decide_all;
  void decide_all(std::span<const Request> requests, Instant now, Decision& decision) override;
  void submit(std::unique_ptr<Batch> batch) override = 0;
  void submit_and_wait(std::unique_ptr<Batch> batch) override = 0;

 private:
  void decide_in_batch(std::span<const Request> requests, Batch::Mode mode, Instant now,
                       std::span<Decision> decisions);
};

/// Decision::taken where a store was sent the request and did not answer, so that it may have
/// executed it.
/// - A store without a failure policy (Redis, Memcached) says so in each such kUnavailable
///   decision; with 0 there, it has certainly not executed the request.
/// - A FallbackStore says so of a permit that was to be acquired, whatever its policy has answered
///   or raised. Of other requests it does not tell.
inline constexpr std::int64_t kTakenUnknown = -1;
/// The same, told to an outer store only: the answer may still come (Batch::OuterStore).
inline constexpr std::int64_t kTakenLater = -2;
inline bool may_be_executed(const Decision& decision) {
  return decision.taken == kTakenUnknown || decision.taken == kTakenLater;
}

/// The most requests that can be asked together.
inline constexpr std::size_t kMaxTogether = 16;

}  // namespace sluice

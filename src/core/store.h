#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
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

/// Where one limit's keys live: identity is (space, key). Opened by a store, and only that store
/// knows what is inside.
class Space {
 public:
  Space() = default;
  virtual ~Space() = default;
  Space(const Space&) = delete;
  Space& operator=(const Space&) = delete;

  /// What the callers of this space share beside its keys, of one type for all of them: made by the
  /// first that asks for it, with its arguments, and kept as long as the space and those that
  /// succeed it. Thread-safe.
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

 private:
  mutable std::mutex attachment_mutex_;
  std::shared_ptr<void> attachment_;  // guarded by attachment_mutex_
};

/// Stops the calls of Store::watch() when it is destroyed.
class Watch {
 public:
  virtual ~Watch() = default;
};

/// Finds states, runs transitions on them and commits, atomically. Thread-safe throughout.
///
/// The batch is the unit; one decision is a batch of one.
///
/// A store that asks another machine answers within its deadline. What that machine did not answer
/// is Source::kUnavailable: not allowed, and it may have been charged nevertheless.
class Store {
 public:
  virtual ~Store() = default;

  /// The space in which `limit` keeps its keys: the same one for the same name until no caller
  /// holds it and the store needs its place. Where the space has states that this limit cannot read
  /// (another algorithm, another window), its keys start fresh if no other caller holds it. Throws
  /// StoreError if one does, or where a bound is reached.
  virtual std::shared_ptr<Space> open_space(const LimitDefinition& limit) = 0;

  /// As open_space(), for a caller that holds the space of that name as `held` and goes on with the
  /// result: its own share of `held` does not count. So if no other caller holds the space and
  /// `limit` cannot read its states, the result is another space, whose keys are fresh, and which
  /// succeeds `held`.
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
  /// kUnavailable. (A memory store in virtual time that is full: the requests before the one that
  /// found no room are then decided; it and those after it are left as they were, uncharged.)
  virtual void decide(std::span<const Request> requests, Instant now,
                      std::span<Decision> decisions) = 0;

  /// Takes from all or from none, in one atomic step. The answer is that of the binding request
  /// (see Decision::binding), with the longest delay. A list of one is answered as decide() does.
  /// REQUIRES: as decide(); at least one request; each takes. Throws std::invalid_argument, nothing
  /// charged, where a limit lends permits, two requests name the same limit and key, there are more
  /// than kMaxTogether, or the store cannot take from all of them in one step; StoreError where it
  /// could not be answered: `decision` is then kUnavailable.
  virtual void decide_all(std::span<const Request> requests, Instant now, Decision& decision) = 0;
  Decision decide_all(std::span<const Request> requests, Instant now) {
    Decision decision;
    decide_all(requests, now, decision);
    return decision;
  }

  /// Takes the batch over and does not wait for another machine: its completion is called once,
  /// within this call or later on the store's worker thread. What the store could not answer is
  /// kUnavailable, and Batch::error() says why. REQUIRES: as decide() or decide_all(); the batch
  /// has a completion. Throws std::invalid_argument, as decide_all(), before anything is asked: the
  /// completion is then not called.
  virtual void submit(std::unique_ptr<Batch> batch);

  /// Whether submit() may return before the completion is called. Always the same for one store.
  virtual bool answers_later() const { return false; }

  /// Calls `released` whenever a permit of the key was released elsewhere while all were held, and
  /// once whenever it has become certain that the store will tell; from some thread, with no lock
  /// of the store held, until the watch is destroyed (not while its destructor runs, and not
  /// after). Some calls may be missed. Null where the store cannot tell; a store that may not tell
  /// never calls it: the caller asks again from time to time. Throws nothing.
  virtual std::unique_ptr<Watch> watch(const std::shared_ptr<Space>& /*space*/,
                                       std::string_view /*key*/,
                                       std::function<void()> /*released*/) {
    return nullptr;
  }

  /// The store's clock.
  virtual Instant now() const = 0;

  /// How many keys have a state, those that have become fresh since and are not yet forgotten
  /// among them; nothing where the store cannot tell without asking another machine.
  virtual std::optional<std::uint64_t> count_keys() { return std::nullopt; }

  /// How many bytes the keys' states take; nothing where the store cannot tell without asking
  /// another machine.
  virtual std::optional<std::uint64_t> count_bytes() { return std::nullopt; }

  /// Writes what this store knows into the health of the store that it is or is a part of, and
  /// leaves the rest as it is.
  virtual void add_health(StoreHealth& /*health*/) const {}

  /// Adds what decision_counts() returns.
  virtual void add_counts(std::vector<DecisionCount>& /*counts*/) const {}
};

/// Decision::taken of a kUnavailable decision whose request was sent: the store may have executed
/// it. Where `taken` is 0, the store has not.
inline constexpr std::int64_t kTakenUnknown = -1;

/// The most requests that can be asked together.
inline constexpr std::size_t kMaxTogether = 16;

}  // namespace sluice

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "limiter/followers.h"
#include "limiter/guarded_store.h"

namespace sluice {

/// A space of the store inside, and the one where this process keeps its own states.
class GuardedStore::GuardedSpace final : public Space {
 public:
  std::shared_ptr<Space> inner;
  std::shared_ptr<Space> local;
  /// What the deny cache knows it by: another one, and all its denials are forgotten.
  std::atomic<std::uint64_t> number{0};
  std::string expression;
  /// Whether what its limits allow is given back: the same for all that share its states.
  bool lends = false;

  static GuardedSpace& of(const Request& request) {
    return static_cast<GuardedSpace&>(*request.space);
  }
  /// What the deny cache knows the request's key by now.
  static DenyCache::Name name_of(const Request& request, const KeyHash& key) {
    return {.space = of(request).number.load(std::memory_order_acquire), .key = key};
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
    DenyCache::Name name;
    std::uint32_t position = 0;
  };

  /// Answers what the store has nothing to do with. `room` is room_for() the requests and outlives
  /// it, aligned for anything.
  Round(GuardedStore& guard, const Question& question, std::byte* room);
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  static constexpr std::size_t room_for(std::size_t requests) {
    return requests * (sizeof(Request) + sizeof(Decision) + sizeof(Mark));
  }

  /// What to ask, and where the answers go. What is not written there is unanswered.
  std::span<const Request> requests() const { return {asked_, count_}; }
  /// Where all is asked, these are the question's own decisions.
  std::span<Decision> answers() { return {answers_, question_.together ? 1 : count_}; }

  /// What finish() may add from its `first` answer on, as far as there is room.
  void expect(Followers& followers, std::size_t first = 0) const;

  /// All answers are there: learns from them, and decides what has none by the policy. Returns
  /// whether the policy is to raise, and there is such. Throws what a local group throws; its
  /// decision is then kUnanswered. What refers to the requests may be in `followers` yet.
  bool finish(Followers& followers);

 private:
  bool is_others(std::uint32_t position);
  bool uses_cache(const Request& request) const;
  bool is_denied_again(const Mark& mark);
  void learn(const Request& request, const Mark& mark, const Decision& answer);
  void follow(const Mark& mark, const Decision& answer, Followers& followers);
  Decision answer_unanswered(const Request& request);
  void finish_each(Followers& followers);
  void finish_together(Followers& followers);

  Instant local_now() const {
    return question_.now == kStoreTime ? guard_.clock_.now() : question_.now;
  }

  GuardedStore& guard_;
  const Question question_;
  const Instant sent_;
  std::size_t lost_ = 0;
  std::size_t count_ = 0;  // Of each of these; what is in the room need not be destroyed.
  Request* const asked_;
  Decision* answers_;
  Mark* const marks_;
};

}  // namespace sluice

#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice::faults {

using Clock = std::chrono::steady_clock;

/// One decision, as its caller saw it.
struct Sample {
  Clock::time_point asked;
  Clock::duration took;
  /// kUnanswered: StoreError was thrown.
  Source source;
  bool allowed;
};

/// What was admitted of one key.
struct Admitted {
  std::string key;
  std::int64_t limit = 0;
  std::int64_t by_store = 0;
  std::int64_t otherwise = 0;
  /// How often it began fresh in the store: the first unit of a limit was admitted, or may have
  /// been where it was not the store that answered.
  std::int64_t begun = 0;
};

/// What the callers have seen.
struct Report {
  std::vector<Sample> samples;     ///< By when they were asked.
  std::vector<Admitted> admitted;  ///< Of the keys that all callers share.
  /// Decisions that cannot be their request's: the first few, a sentence each.
  std::vector<std::string> strays;
};

/// Callers on threads of their own, who ask one store until they are stopped, each without pause
/// but for a fifth of a millisecond.
///
/// All share keys of a few limits, some of which are soon used up. Each has keys of its own as
/// well, of which it knows what it has taken: a decision that was made for another request has
/// another limit, or counts what this caller has not taken. So that the counts of two keys are not
/// mistaken for each other, each key is asked for another prime number of units at a time.
class Load {
 public:
  static constexpr std::size_t kCallers = 2;
  static constexpr std::size_t kSharedKeys = 12;
  static constexpr std::size_t kOwnKeys = 8;
  static constexpr std::size_t kLimits = 4;

  /// Opens a store by its URL, waits until it has answered once, and begins to call.
  explicit Load(const std::string& url);
  ~Load();

  /// States may be missing, or older than they were. REQUIRES: the server that lost them does not
  /// answer yet.
  void state_is_lost() { losses_.fetch_add(2); }
  /// From here on until the other, what is noted may be lost.
  void begin_losing() { losses_.fetch_add(1); }
  void end_losing() { losses_.fetch_add(1); }

  /// Ends the calls.
  Report stop();

  /// The names of all keys, which are the hash tags of the server's.
  static std::vector<std::string> keys();

 private:
  struct OwnKey {
    std::string name;
    std::int64_t cost = 0;
    std::int64_t used = 0;
    std::int64_t in_doubt = 0;  // Asked for, and nobody knows whether the store has noted it.
    int losses = 0;
  };
  struct Caller {
    std::size_t number = 0;
    std::minstd_rand random;
    std::array<OwnKey, kOwnKeys> own;
    std::vector<Sample> samples;
    std::vector<std::string> strays;
    std::thread thread;
  };
  struct Count {
    std::atomic<std::int64_t> by_store{0};
    std::atomic<std::int64_t> otherwise{0};
    std::atomic<std::int64_t> begun{0};
  };

  void await_store();
  void call(Caller& caller);
  void call_shared(Caller& caller);
  void call_own(Caller& caller);
  Decision ask(Caller& caller, Limiter& limiter, const std::string& key, std::int64_t cost);
  void check_own(Caller& caller, OwnKey& key, const Decision& decision, int losses);
  void stray(Caller& caller, const std::string& what, const Decision& decision);

  std::shared_ptr<Store> store_;
  std::vector<Limiter> limiters_;
  std::unique_ptr<Limiter> own_limiter_;
  std::array<std::array<Count, kSharedKeys>, kLimits> counts_;
  std::array<Caller, kCallers> callers_;
  std::atomic<int> losses_{0};  // Odd: what is noted may be lost.
  std::atomic<bool> stopping_{false};
};

}  // namespace sluice::faults

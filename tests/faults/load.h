#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "sluice/limiter.h"
#include "sluice/store.h"

namespace sluice::faults {

using Clock = std::chrono::steady_clock;

/// Returns once the store decides for this key.
void await_store(Limiter& limiter, const std::string& key = "k");

/// One decision, as its caller sees it.
struct Sample {
  Clock::time_point asked;
  Clock::duration took;
  Source source;
};

/// The admissions of one key.
struct Admitted {
  std::string key;
  std::int64_t limit = 0;
  std::int64_t by_store = 0;
  std::int64_t otherwise = 0;
  /// How often the key was fresh in the store: the first unit of the limit was admitted, or may
  /// have been if the store did not answer.
  std::int64_t begun = 0;
};

/// The results of all callers.
struct Report {
  std::vector<Sample> samples;     ///< By when they were asked.
  std::vector<Admitted> admitted;  ///< Of the keys that all callers share.
  /// Of these keys in all: the units that the store's health counts as not charged back.
  std::int64_t not_charged_back = 0;
  /// A sentence for each of the first few decisions that cannot belong to their request.
  std::vector<std::string> strays;
};

/// Callers on separate threads that use one store until they are stopped, each with pauses of a
/// fifth of a millisecond. The store must not throw StoreError.
///
/// They share keys of a few limits, some of which are soon used up. Each caller also has its own
/// keys, for which it knows how much it has taken: a decision for another request would have
/// another limit, or count units that this caller has not taken. Each key takes a different prime
/// number of units at a time, so that the counts of two keys cannot be confused. Own keys take
/// multiples of kOwnUnit, which sums of units tell apart from those of shared keys.
class Load {
 public:
  static constexpr std::size_t kCallers = 2;
  static constexpr std::size_t kSharedKeys = 12;
  static constexpr std::size_t kOwnKeys = 8;
  static constexpr std::size_t kLimits = 4;
  static constexpr std::int64_t kOwnUnit = 100'000;

  /// Opens a store, waits until it has answered once, and starts the callers.
  explicit Load(const std::string& url);
  ~Load();

  /// Call this when states may be lost or outdated. REQUIRES: the server that lost them does not
  /// answer yet.
  void state_is_lost() { losses_.fetch_add(2); }
  /// From begin_losing() to end_losing(), recorded units may be lost.
  void begin_losing() { losses_.fetch_add(1); }
  void end_losing() { losses_.fetch_add(1); }

  /// Stops the callers.
  Report stop();

  /// The names of all keys, which are the hash tags of the keys on the server.
  static std::vector<std::string> keys();

 private:
  struct OwnKey {
    std::string name;
    std::int64_t cost = 0;
    std::int64_t used = 0;
    // Units of requests for which it is unknown whether the store charged them.
    std::int64_t in_doubt = 0;
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

  void call_shared(Caller& caller);
  void call_own(Caller& caller);
  static Decision ask(Caller& caller, Limiter& limiter, const std::string& key, std::int64_t cost);
  void check_own(Caller& caller, OwnKey& key, const Decision& decision, int losses);
  void stray(Caller& caller, const std::string& what, const Decision& decision);

  std::shared_ptr<Store> store_;
  std::vector<Limiter> limiters_;
  std::unique_ptr<Limiter> own_limiter_;
  std::array<std::array<Count, kSharedKeys>, kLimits> counts_;
  std::array<Caller, kCallers> callers_;
  std::atomic<int> losses_{0};  // Odd while recorded units may be lost.
  std::atomic<bool> stopping_{false};
};

}  // namespace sluice::faults

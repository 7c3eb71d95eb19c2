#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/store.h"
#include "memory/key_array.h"
#include "memory/resident.h"
#include "sluice/limit.h"
#include "stores/stores.h"

namespace sluice::bench {

/// The limit of the benchmarks: wide enough to admit all requests, and slow enough that no state
/// becomes fresh (and is forgotten) while they run. One unit per `kIntervalNs`, `kBurst` at once.
inline constexpr const char* kBenchLimit = "token_bucket 1/1h burst=100000";
inline constexpr std::int64_t kIntervalNs = 3'600'000'000'000;
inline constexpr std::int64_t kBurst = 100'000;
/// The limit for one hot key.
inline constexpr const char* kHotLimit = "token_bucket 1/1s burst=2000000000";

inline constexpr std::size_t kBatch = 32;

/// A memory store that holds a state for every key.
class FilledStore {
 public:
  explicit FilledStore(const KeyArray& keys);

  /// The growth of the process's memory while the store was filled.
  const Resident& growth() const { return growth_; }

  /// The most bytes a key while the store grew from a tenth of the keys to all of them.
  double most_bytes_per_key() const { return most_bytes_per_key_; }

  Instant now() const { return store_->now(); }

  /// Makes one decision. Returns the remaining units. `now` may be kStoreTime.
  std::uint64_t decide(std::string_view key, Instant now) {
    requests_[0].key = key;
    store_->decide({requests_.data(), 1}, now, {decisions_.data(), 1});
    return static_cast<std::uint64_t>(decisions_[0].remaining);
  }

  /// Makes one decision on the hot key.
  std::uint64_t decide_hot(Instant now) {
    store_->decide({&hot_request_, 1}, now, {decisions_.data(), 1});
    return static_cast<std::uint64_t>(decisions_[0].remaining);
  }

  /// Makes kBatch decisions, on the walk's next keys.
  std::uint64_t decide_batch(Walk* walk, std::uint64_t answer, Instant now) {
    for (Request& request : requests_) request.key = walk->next(answer);
    store_->decide(requests_, now, decisions_);
    return static_cast<std::uint64_t>(decisions_[0].remaining);
  }

 private:
  static constexpr std::size_t kGrowthSamples = 200;

  Limit limit_{kBenchLimit};
  Limit hot_limit_{kHotLimit};
  std::shared_ptr<Store> store_;
  std::shared_ptr<Space> space_;
  std::shared_ptr<Space> hot_space_;
  std::array<Request, kBatch> requests_{};
  Request hot_request_{};
  std::array<Decision, kBatch> decisions_{};
  Resident growth_;
  double most_bytes_per_key_ = 0;
};

}  // namespace sluice::bench

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/store.h"
#include "memory/filled_store.h"
#include "memory/key_array.h"
#include "sluice/limit.h"

namespace sluice::bench {

/// A memory store whose keys become fresh again: its time runs with the decisions, a million in a
/// second.
class ChangingStore {
 public:
  /// A key is fresh again after `lifetime` decisions, of any keys.
  explicit ChangingStore(std::size_t lifetime);

  /// Makes kBatch decisions, on the keys that `next()` returns.
  template <class Next>
  std::uint64_t decide_batch(Next next) {
    for (Request& request : requests_) request.key = next();
    now_ += kBatch * kStepNs;
    store_->decide(requests_, now_, decisions_);
    return static_cast<std::uint64_t>(decisions_[0].remaining);
  }

 private:
  static constexpr std::int64_t kStepNs = 1000;

  Limit limit_;
  std::shared_ptr<Store> store_;
  std::shared_ptr<Space> space_;
  Instant now_;
  std::array<Request, kBatch> requests_{};
  std::array<Decision, kBatch> decisions_{};
};

/// Fills a store with `keys`, of which nine of ten become fresh after a second, and asks for the
/// others for a minute of the store's time, 100,000 times a second. Returns the process's growth
/// after that, divided by its growth after the filling.
double share_of_memory_left(const KeyArray& keys);

/// A stream of keys: nine of ten by Zipf's law among the first `known` of `keys`, and one that was
/// never seen.
class ZipfStream {
 public:
  /// REQUIRES: 1 <= known < keys.size().
  ZipfStream(const KeyArray& keys, std::size_t known);

  std::string_view next() {
    const std::uint32_t pick = picks_[at_];
    at_ = at_ + 1 < picks_.size() ? at_ + 1 : 0;
    if (pick != kNew) return keys_.at(pick);
    new_ = new_ + 1 < keys_.size() ? new_ + 1 : known_;
    return keys_.at(new_);
  }

 private:
  static constexpr std::uint32_t kNew = 0xFFFF'FFFF;

  const KeyArray& keys_;
  const std::size_t known_;
  std::vector<std::uint32_t> picks_;
  std::size_t at_ = 0;
  std::size_t new_;
};

}  // namespace sluice::bench

#pragma once

#include <cstdint>
#include <vector>

#include "advise/traffic.h"

namespace sluice::advise {

/// The keys of a traffic by what they need of one family, the most needy first.
class Ranking {
 public:
  Ranking(std::vector<Traffic::Weighted> keys, std::size_t family);

  std::size_t size() const { return keys_.size(); }
  const KeyTraffic& key(std::size_t rank) const { return *keys_[rank].key; }
  std::uint64_t weight(std::size_t rank) const { return keys_[rank].weight; }
  std::int64_t peak(std::size_t rank) const { return key(rank).peak(family_); }

  /// The weights of all keys.
  std::uint64_t total() const { return total_; }

  /// The smallest limit that denies something to at most `thousandths` of the keys.
  std::int64_t limit_for_keys(std::uint64_t thousandths) const;

  /// The smallest limit of limit_series() that denies at most `thousandths` of the keys' requests,
  /// as every larger one does; kMaxCount if the family has none.
  std::int64_t limit_for_requests(std::uint64_t thousandths) const;

  /// The requests that a limit of limit_series() denies to the first keys, up to `end`.
  std::uint64_t denied(std::size_t limit, std::size_t end) const;

  /// The keys, by weight, that need more than `limit`.
  std::uint64_t keys_above(std::int64_t limit) const;

 private:
  std::vector<Traffic::Weighted> keys_;
  std::size_t family_;
  std::uint64_t total_ = 0;
  std::uint64_t requests_ = 0;
};

}  // namespace sluice::advise

#include "advise/ranking.h"

#include <algorithm>

namespace sluice::advise {

Ranking::Ranking(std::vector<Traffic::Weighted> keys, std::size_t family)
    : keys_(std::move(keys)), family_(family) {
  // By text if equal, so that equal input gives equal output.
  std::sort(keys_.begin(), keys_.end(), [&](const auto& a, const auto& b) {
    const std::int64_t first = a.key->peak(family);
    const std::int64_t second = b.key->peak(family);
    return first != second ? first > second : a.key->key < b.key->key;
  });
  for (const Traffic::Weighted& each : keys_) {
    total_ += each.weight;
    requests_ += each.weight * each.key->requests;
  }
}

std::int64_t Ranking::limit_for_keys(std::uint64_t thousandths) const {
  std::uint64_t above = 0;
  for (std::size_t rank = 0; rank < size(); ++rank) {
    above += weight(rank);
    if (above * 1'000 > total_ * thousandths) return std::max<std::int64_t>(1, peak(rank));
  }
  return 1;
}

std::int64_t Ranking::limit_for_requests(std::uint64_t thousandths) const {
  const std::size_t count = limit_families().info[family_].limits;
  std::size_t limit = count;
  while (limit > 0 && denied(limit - 1, size()) * 1'000 <= requests_ * thousandths) --limit;
  return limit < count ? limit_series()[limit] : kMaxCount;
}

std::uint64_t Ranking::denied(std::size_t limit, std::size_t end) const {
  std::uint64_t denied = 0;
  for (std::size_t rank = 0; rank < end; ++rank) {
    // The keys from here on need no more than the limit.
    if (peak(rank) <= limit_series()[limit]) break;
    denied += weight(rank) * key(rank).denied(family_, limit);
  }
  return denied;
}

std::uint64_t Ranking::keys_above(std::int64_t limit) const {
  std::uint64_t above = 0;
  for (std::size_t rank = 0; rank < size() && peak(rank) > limit; ++rank) above += weight(rank);
  return above;
}

}  // namespace sluice::advise

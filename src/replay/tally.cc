#include "replay/tally.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sluice::replay {
namespace {

constexpr std::size_t kFirstKeyBytes = std::size_t{64} * 1024;

/// A key in the order of tables: the most denied first, equal ones by their bytes, so that equal
/// input gives equal output.
struct DeniedKey {
  std::uint64_t denied = 0;
  std::string_view key;
  std::uint32_t id = 0;

  bool is_before(const DeniedKey& other) const {
    return denied != other.denied ? denied > other.denied : key < other.key;
  }
};

}  // namespace

std::size_t LoggedKeyHash::operator()(std::string_view key) const {
  return XXH3_64bits(key.data(), key.size());
}

Tally::Tally(std::vector<std::string> expressions)
    : expressions_(std::move(expressions)),
      key_bytes_(kFirstKeyBytes),
      minutes_(expressions_.size()) {}

Tally::KeyId Tally::count(std::string_view key) {
  auto found = ids_.find(key);
  if (found == ids_.end()) {
    if (ids_.size() == std::numeric_limits<KeyId>::max()) {
      throw std::length_error("more than 2^32 - 1 keys");
    }
    std::string_view kept;
    if (!key.empty()) {
      auto* bytes = static_cast<char*>(key_bytes_.allocate(key.size(), 1));
      std::memcpy(bytes, key.data(), key.size());
      kept = {bytes, key.size()};
    }
    found = ids_.emplace(kept, static_cast<KeyId>(ids_.size())).first;
    counts_.resize(counts_.size() + expressions_.size() + 1);
  }
  ++cell(found->second, 0);
  return found->second;
}

void Tally::count_denied(std::size_t limit, KeyId key, Instant time_ns) {
  ++cell(key, limit + 1);
  ++minutes_[limit][time_ns / kMinuteNs];
}

Summary Tally::summary(std::size_t most) const {
  Summary summary{.keys_seen = ids_.size(), .limits = {}};
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    summary.limits.push_back(denied_keys(i, most));
    summary.limits.back().worst_minute = worst_minute(i);
  }
  return summary;
}

LimitSummary Tally::only_denied(std::size_t by, std::size_t not_by) const {
  return denied_keys(by, kMostDenied, not_by);
}

LimitSummary Tally::denied_keys(std::size_t limit, std::size_t most,
                                std::optional<std::size_t> not_by) const {
  LimitSummary summary{.expression = expressions_[limit]};
  std::vector<DeniedKey> first;
  for (const auto& [key, id] : ids_) {
    const DeniedKey candidate{denied(limit, id), key, id};
    if (candidate.denied == 0 || (not_by && denied(*not_by, id) > 0)) continue;
    summary.denied += candidate.denied;
    ++summary.keys_limited;
    if (first.size() == most && !candidate.is_before(first.back())) continue;
    first.insert(std::ranges::upper_bound(first, candidate, &DeniedKey::is_before), candidate);
    if (first.size() > most) first.pop_back();
  }
  for (const DeniedKey& key : first) {
    summary.most_denied.push_back({std::string(key.key), key.denied, requests(key.id), key.id});
  }
  return summary;
}

std::optional<WorstMinute> Tally::worst_minute(std::size_t limit) const {
  std::optional<WorstMinute> worst;
  for (const auto& [minute, denied] : minutes_[limit]) {
    const Instant start_ns = minute * kMinuteNs;
    if (!worst || denied > worst->denied ||
        (denied == worst->denied && start_ns < worst->start_ns)) {
      worst = WorstMinute{start_ns, denied};
    }
  }
  return worst;
}

ShareHistogram Tally::shares(std::size_t limit) const {
  ShareHistogram keys{};
  for (KeyId id = 0; id < ids_.size(); ++id) {
    const std::uint64_t part = denied(limit, id);
    const std::uint64_t whole = requests(id);
    const std::uint64_t bin = part == 0 ? 0 : part == whole ? 11 : 1 + (part * 10 - 1) / whole;
    ++keys[bin];
  }
  return keys;
}

}  // namespace sluice::replay

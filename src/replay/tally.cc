#include "replay/tally.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

#include "replay/best.h"

namespace sluice::replay {
namespace {

constexpr std::size_t kFirstKeyBytes = std::size_t{64} * 1024;

}  // namespace

std::size_t Tally::KeyHash::operator()(std::string_view key) const {
  return XXH3_64bits(key.data(), key.size());
}

Tally::Tally(std::vector<std::string> expressions)
    : expressions_(std::move(expressions)),
      key_bytes_(kFirstKeyBytes),
      minutes_(expressions_.size()) {}

Tally::KeyId Tally::count(std::string_view key, Instant time_ns) {
  first_ns_ = requests_ == 0 ? time_ns : std::min(first_ns_, time_ns);
  last_ns_ = requests_ == 0 ? time_ns : std::max(last_ns_, time_ns);
  ++requests_;
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
  ++minutes_[limit].denied[time_ns / kMinuteNs];
}

Summary Tally::summary(std::size_t most) const {
  Summary summary{.requests = requests_,
                  .keys_seen = ids_.size(),
                  .first_ns = first_ns_,
                  .last_ns = last_ns_,
                  .limits = {}};
  for (std::size_t i = 0; i < expressions_.size(); ++i) {
    summary.limits.push_back(limit_summary(i, most));
  }
  return summary;
}

LimitSummary Tally::limit_summary(std::size_t limit, std::size_t most) const {
  LimitSummary summary{.expression = expressions_[limit]};
  for (const auto& [minute, denied] : minutes_[limit].denied) {
    const Instant start_ns = minute * kMinuteNs;
    auto& worst = summary.worst_minute;
    if (!worst || denied > worst->denied ||
        (denied == worst->denied && start_ns < worst->start_ns)) {
      worst = WorstMinute{start_ns, denied};
    }
  }
  Best<DeniedKey> best(most);
  for (const auto& [key, id] : ids_) {
    const DeniedKey candidate{cell(id, limit + 1), key, id};
    if (candidate.denied == 0) continue;
    summary.denied += candidate.denied;
    ++summary.keys_limited;
    best.add(candidate);
  }
  for (const DeniedKey& candidate : std::move(best).sorted()) {
    summary.most_denied.push_back(
        {std::string(candidate.key), candidate.denied, cell(candidate.id, 0), candidate.id});
  }
  return summary;
}

}  // namespace sluice::replay

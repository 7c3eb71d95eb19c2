#include "replay/differences.h"

#include <string_view>

#include "replay/best.h"

namespace sluice::replay {
namespace {

std::size_t share_bin(std::uint64_t denied, std::uint64_t requests) {
  if (denied == 0) return 0;
  if (denied == requests) return 11;
  return 1 + static_cast<std::size_t>((denied * 10 - 1) / requests);
}

}  // namespace

ShareHistogram share_histogram(const Tally& tally, std::size_t limit) {
  ShareHistogram histogram{};
  tally.visit_keys([&](std::string_view, Tally::KeyId id) {
    ++histogram[share_bin(tally.denied(limit, id), tally.requests(id))];
  });
  return histogram;
}

Difference only_denied(const Tally& tally, std::size_t by, std::size_t not_by) {
  Difference difference;
  Best<DeniedKey> best(kMostDifferent);
  tally.visit_keys([&](std::string_view key, Tally::KeyId id) {
    const std::uint64_t denied = tally.denied(by, id);
    if (denied == 0 || tally.denied(not_by, id) > 0) return;
    ++difference.keys;
    best.add({denied, key, id});
  });
  for (const DeniedKey& found : std::move(best).sorted()) {
    difference.most_denied.push_back(
        {std::string(found.key), tally.requests(found.id), found.denied});
  }
  return difference;
}

}  // namespace sluice::replay

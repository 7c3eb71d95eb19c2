#include "stores/memcached/sub_windows.h"

#include <algorithm>
#include <vector>

#include "core/ring.h"

namespace sluice::memcached {
namespace {

// Counts are sums of what was added; more than an algorithm can hold is none of ours.
std::int64_t units(std::uint64_t count) {
  return static_cast<std::int64_t>(std::min(count, static_cast<std::uint64_t>(kMaxCount)));
}

}  // namespace

std::optional<SubWindows> sub_windows_of(const LimitDefinition& limit) {
  if (limit.parts.size() != 1) return std::nullopt;
  if (const auto* fixed = std::get_if<Part<FixedWindow>>(&limit.parts[0])) {
    const auto& params = fixed->params;
    if (params.first || params.limit > kMostCounted) return std::nullopt;
    return SubWindows{.span_ns = params.window_ns(),
                      .kind = 'f' + std::to_string(params.window_ns())};
  }
  if (const auto* sliding = std::get_if<Part<SlidingWindow>>(&limit.parts[0])) {
    const auto& params = sliding->params;
    if (params.limit > kMostCounted) return std::nullopt;
    return SubWindows{.span_ns = params.precision_ns(),
                      .before = params.lifetime_ns / params.precision_ns() - 1,
                      .after = SubWindows::kAhead,
                      .kind = 's' + std::to_string(params.window_ns) + '/' +
                              std::to_string(params.precision_ns())};
  }
  return std::nullopt;
}

Decision judge_counts(const LimitDefinition& limit, const Counts& counts, const Call& call) {
  if (const auto* fixed = std::get_if<Part<FixedWindow>>(&limit.parts[0])) {
    const FixedWindow::State state{
        fixed->params.window.divide(call.now) * fixed->params.window_ns(),
        units(counts.units[counts.current])};
    return FixedWindow::take(fixed->params, state, call).decision;
  }
  const auto& params = std::get<Part<SlidingWindow>>(limit.parts[0]).params;
  const std::int64_t oldest =
      params.precision.divide(call.now) - static_cast<std::int64_t>(counts.current);
  // Later units count with the current ones, which stop counting no later.
  std::vector<RingEntry> slots;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i <= counts.current; ++i) {
    const auto here = counts.units.subspan(i, i == counts.current ? std::dynamic_extent : 1);
    const std::uint64_t before = total;
    for (const std::uint64_t count : here) total += static_cast<std::uint64_t>(units(count));
    if (total == before) continue;
    slots.push_back({(oldest + static_cast<std::int64_t>(i)) * params.precision_ns(), total});
  }
  const auto size = static_cast<std::uint32_t>(slots.size());
  const Ring ring{.slots = slots.data(), .capacity = size, .head = 0, .size = size, .base = 0};
  return SlidingWindow::take(params, ring, call).decision;
}

}  // namespace sluice::memcached

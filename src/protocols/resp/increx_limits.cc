#include "protocols/resp/increx_limits.h"

#include <algorithm>
#include <cassert>
#include <string>
#include <utility>

#include "core/limit_syntax.h"
#include "sluice/store.h"

namespace sluice::resp {
namespace {

LimitDefinition define_increx(const IncrexNumbers& numbers) {
  const FixedWindow::Params params{
      .limit = numbers.bound, .window = Divider(numbers.period_ns), .first = true};
  LimitDefinition limit;
  // No limit can have this name: a name has no blank, and there is no such algorithm.
  limit.space = "increx " + format_duration(numbers.period_ns);
  limit.expression = FixedWindow::describe(params);
  limit.varies = true;
  limit.parts.emplace_back(Part<FixedWindow>{params});
  return limit;
}

}  // namespace

const IncrexPeriod& IncrexPeriods::open(const IncrexNumbers& numbers) {
  LimitDefinition widest = define_increx({.bound = kMaxCount, .period_ns = numbers.period_ns});
  const std::lock_guard lock(mutex_);
  const std::size_t size = size_.load(std::memory_order_relaxed);
  std::size_t i = 0;
  while (i < size && periods_[i].widest->definition.space != widest.space) ++i;
  if (i == kMaxPeriods) {
    throw StoreError("INCREX has been asked for " + std::to_string(kMaxPeriods) +
                     " different periods, and the server takes no other one until it is started "
                     "again: use SLUICE.CHECK");
  }
  IncrexPeriod& period = periods_[i];
  if (i == size) {
    auto space = store_.open_space(widest);
    period.widest =
        std::make_shared<const VaryingLimit>(VaryingLimit{std::move(widest), std::move(space)});
    period.most = most_before_;
    size_.store(size + 1, std::memory_order_release);
  }
  period.most = std::max(period.most.load(), numbers.bound);
  return period;
}

const IncrexLimit& IncrexLimits::find(const IncrexNumbers& numbers) {
  assert(numbers.bound >= 1 && numbers.bound <= kMaxCount);
  assert(numbers.period_ns >= 1 && numbers.period_ns <= kMaxDurationNs);
  if (const auto* known = limits_.find(numbers)) return *known;
  const IncrexPeriod& period = periods_.open(numbers);
  VaryingLimit limit{define_increx(numbers), period.widest->space};
  return limits_.insert(numbers, {std::make_shared<const VaryingLimit>(std::move(limit)), &period});
}

}  // namespace sluice::resp

#include "protocols/resp/increx_limits.h"

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

std::shared_ptr<Space> IncrexPeriods::open(std::int64_t period_ns) {
  LimitDefinition definition = define_increx({.bound = 1, .period_ns = period_ns});
  const std::lock_guard lock(mutex_);
  for (const auto& known : all()) {
    if (known->definition.space == definition.space) return known->space;
  }
  const std::size_t size = size_.load(std::memory_order_relaxed);
  if (size == kMaxPeriods) {
    throw StoreError("INCREX has been asked for " + std::to_string(kMaxPeriods) +
                     " different periods, and the server takes no other one until it is started "
                     "again: use SLUICE.CHECK");
  }
  auto space = store_.open_space(definition);
  limits_[size] = std::make_shared<const VaryingLimit>(VaryingLimit{std::move(definition), space});
  size_.store(size + 1, std::memory_order_release);
  return space;
}

const std::shared_ptr<const VaryingLimit>& IncrexLimits::find(const IncrexNumbers& numbers) {
  assert(numbers.bound >= 1 && numbers.bound <= kMaxCount);
  assert(numbers.period_ns >= 1 && numbers.period_ns <= kMaxDurationNs);
  if (const auto* known = limits_.find(numbers)) return *known;
  auto space = periods_.open(numbers.period_ns);
  return limits_.insert(numbers, std::make_shared<const VaryingLimit>(
                                     VaryingLimit{define_increx(numbers), std::move(space)}));
}

}  // namespace sluice::resp

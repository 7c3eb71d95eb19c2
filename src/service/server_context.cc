#include "service/server_context.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

/// One key needs no more.
constexpr const char* kSlowReports = "memory:?max_bytes=1048576";

}  // namespace

ThreadContext::ThreadContext(const std::shared_ptr<Store>& store, const CurrentLimits& current,
                             SlowDecisions& slow)
    : limits(store, current.get()),
      counters(LimitHistory::kMostNumbers, slow),
      batch(store, counters),
      current_(current),
      version_(current.version()) {
  counters.denied.keep(current.get()->numbers());
}

ServerContext::ServerContext(std::shared_ptr<Store> store, const ServedLimits& served,
                             std::size_t threads, ServerFacts facts)
    : store_(std::move(store)),
      facts_(std::move(facts)),
      access_(facts_.users, facts_.admits_strangers),
      started_at_(store_->now()),
      served_(served),
      named_(std::make_shared<const NamedLimits>(*store_, served, history_)),
      client_rules_(std::make_shared<const ClientRules>(facts_.client_rules)),
      slow_([this](std::uint16_t limit) { return name_of(limit); }, open_store(kSlowReports)) {
  assert(threads >= 1);
  reloads_.last_success = started_at_wall_;
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<ThreadContext>(store_, named_, slow_));
  }
}

void ServerContext::replace_limits(const ServedLimits& served) {
  const auto former = named_.get();
  const auto begins_fresh = [&](const NamedLimit& named) {
    const auto* const known = former->find(named.limit.space());
    return known != nullptr &&
           !keeps_state((*known)->limit.definition().parts, named.limit.definition().parts);
  };
  std::set<std::size_t> numbers;
  const auto replace_by = [&](const ServedLimits& limits) {
    const auto opened = std::make_shared<const NamedLimits>(*store_, limits, history_);
    numbers = opened->numbers();
    named_.replace(opened);
  };
  ServedLimits all = served;
  try {
    // First the limits that keep their states: if one of them cannot be opened, no state is lost.
    ServedLimits others = served;
    std::erase_if(others.named, begins_fresh);
    const NamedLimits opened(*store_, others, history_);
    replace_by(all);
  } catch (...) {
    replace_by(served_);  // The store judges by the former numbers again.
    throw;
  }
  served_ = std::move(all);
  for (const auto& thread : threads_) thread->counters.denied.keep(numbers);
}

std::string ServerContext::name_of(std::uint16_t limit) const {
  const auto named = named_.get();
  for (const auto& each : named->all()) {
    if (limit != 0 && each->number == limit) return each->limit.space();
  }
  return std::string(kOtherLimits);
}

std::uint64_t ServerContext::count(std::size_t limit, Outcome outcome, Source source) const {
  std::uint64_t decisions = 0;
  for (const auto& thread : threads_) decisions += thread->counters.read(limit, outcome, source);
  return decisions;
}

std::vector<KeyCount> ServerContext::top(std::string_view limit, std::size_t most) const {
  const auto current = named_.get();
  const auto* const named = current->find(limit);
  if (named == nullptr && limit != kOtherLimits) throw UnknownLimit(limit, *current);
  const std::size_t number = named == nullptr ? 0 : (*named)->number;
  if (named != nullptr && number == 0) return {};
  TopKeys::Merged merged;
  std::uint64_t dropped = 0;
  for (const auto& thread : threads_) thread->counters.denied.merge_into(number, merged, dropped);
  std::vector<KeyCount> rows;
  for (const auto& [key, row] : merged) rows.push_back(row);
  std::sort(rows.begin(), rows.end(), [](const KeyCount& a, const KeyCount& b) {
    return a.count != b.count ? a.count > b.count : a.key < b.key;
  });
  if (rows.size() > most) rows.resize(most);
  return rows;
}

DurationCounts ServerContext::durations() const {
  DurationCounts counts;
  for (const auto& thread : threads_) thread->counters.durations.add_to(counts);
  return counts;
}

ProtocolCounters& ServerContext::protocol(std::string_view name) {
  const std::lock_guard lock(mutex_);
  const auto at = protocols_.find(name);
  return at != protocols_.end() ? at->second
                                : protocols_.try_emplace(std::string(name)).first->second;
}

std::vector<std::pair<std::string, const ProtocolCounters*>> ServerContext::protocols() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::pair<std::string, const ProtocolCounters*>> all;
  for (const auto& [name, counters] : protocols_) all.emplace_back(name, &counters);
  return all;
}

std::vector<LimitCount> ServerContext::limits() const {
  std::vector<LimitCount> all;
  const auto add = [&](const std::string& name, const std::string& expression, std::size_t number) {
    LimitCount row{.name = name, .expression = expression};
    const bool is_counted = number != 0 || name == kOtherLimits;
    for (std::size_t i = 0; is_counted && i < OutcomeCounters::kSources; ++i) {
      const auto source = static_cast<Source>(i);
      const std::uint64_t would_deny = count(number, Outcome::kWouldDeny, source);
      row.allowed += count(number, Outcome::kAllowed, source) + would_deny;
      row.denied += count(number, Outcome::kDenied, source);
      row.would_deny += would_deny;
    }
    all.push_back(std::move(row));
  };
  const auto named = named_.get();
  for (const auto& limit : named->all()) {
    add(limit->limit.space(), limit->limit.expression(), limit->number);
  }
  add(std::string(kOtherLimits), "", 0);
  return all;
}

std::vector<OutcomeCount> ServerContext::outcomes() const {
  std::vector<OutcomeCount> counts;
  const auto add = [&](const std::string& name, std::size_t number) {
    for (const Outcome outcome : kOutcomes) {
      for (std::size_t i = 0; i < OutcomeCounters::kSources; ++i) {
        const auto source = static_cast<Source>(i);
        const std::uint64_t decisions = count(number, outcome, source);
        if (decisions != 0) counts.push_back({name, outcome, source, decisions});
      }
    }
  };
  const auto named = named_.get();
  for (const auto& limit : named->all()) {
    if (limit->number != 0) add(limit->limit.space(), limit->number);
  }
  add(std::string(kOtherLimits), 0);
  return counts;
}

}  // namespace sluice

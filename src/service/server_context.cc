#include "service/server_context.h"

#include <cassert>
#include <utility>

namespace sluice {

ThreadContext::ThreadContext(const std::shared_ptr<Store>& store, const ServedLimits& served)
    : limits(store, served.expressions), counters(1 + served.named.size()), batch(store, counters) {
  for (const Limit& limit : served.named) limits.add(limit);
}

ServerContext::ServerContext(std::shared_ptr<Store> store, const ServedLimits& served,
                             std::size_t threads, ServerFacts facts)
    : store_(std::move(store)),
      facts_(std::move(facts)),
      started_at_(store_->now()),
      names_{std::string(kOtherLimits)},
      expressions_{std::string()} {
  assert(threads >= 1);
  for (const Limit& limit : served.named) {
    names_.push_back(limit.space());
    expressions_.push_back(limit.expression());
  }
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<ThreadContext>(store_, served));
  }
}

std::uint64_t ServerContext::count(std::size_t limit, bool allowed, Source source) const {
  std::uint64_t decisions = 0;
  for (const auto& thread : threads_) decisions += thread->counters.read(limit, allowed, source);
  return decisions;
}

std::vector<LimitCount> ServerContext::limits() const {
  std::vector<LimitCount> all;
  for (std::size_t i = 1; i <= names_.size(); ++i) {
    const std::size_t limit = i % names_.size();  // The others come last.
    LimitCount row{.name = names_[limit], .expression = expressions_[limit]};
    for (std::size_t source = 0; source < OutcomeCounters::kSources; ++source) {
      row.allowed += count(limit, true, static_cast<Source>(source));
      row.denied += count(limit, false, static_cast<Source>(source));
    }
    all.push_back(std::move(row));
  }
  return all;
}

std::vector<OutcomeCount> ServerContext::outcomes() const {
  std::vector<OutcomeCount> counts;
  for (std::size_t i = 1; i <= names_.size(); ++i) {
    const std::size_t limit = i % names_.size();  // The others come last.
    for (std::size_t kind = 0; kind < 2 * OutcomeCounters::kSources; ++kind) {
      OutcomeCount row{.limit = names_[limit],
                       .allowed = kind < OutcomeCounters::kSources,
                       .source = static_cast<Source>(kind % OutcomeCounters::kSources)};
      row.decisions = count(limit, row.allowed, row.source);
      if (row.decisions != 0) counts.push_back(std::move(row));
    }
  }
  return counts;
}

}  // namespace sluice

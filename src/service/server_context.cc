#include "service/server_context.h"

#include <cassert>
#include <utility>

namespace sluice {

ThreadContext::ThreadContext(const std::shared_ptr<Store>& store, const std::vector<Limit>& named)
    : limits(store), counters(1 + named.size()), batch(store, counters) {
  for (const Limit& limit : named) limits.add(limit);
}

ServerContext::ServerContext(std::shared_ptr<Store> store, const std::vector<Limit>& named,
                             std::size_t threads)
    : store_(std::move(store)), names_{std::string(kOtherLimits)} {
  assert(threads >= 1);
  for (const Limit& limit : named) names_.push_back(limit.space());
  for (std::size_t i = 0; i < threads; ++i) {
    threads_.push_back(std::make_unique<ThreadContext>(store_, named));
  }
}

std::vector<OutcomeCount> ServerContext::outcomes() const {
  std::vector<OutcomeCount> counts;
  for (std::size_t i = 1; i <= names_.size(); ++i) {
    const std::size_t limit = i % names_.size();  // The others come last.
    for (std::size_t kind = 0; kind < 2 * OutcomeCounters::kSources; ++kind) {
      OutcomeCount count{.limit = names_[limit],
                         .allowed = kind < OutcomeCounters::kSources,
                         .source = static_cast<Source>(kind % OutcomeCounters::kSources)};
      for (const auto& thread : threads_) {
        count.decisions += thread->counters.read(limit, count.allowed, count.source);
      }
      if (count.decisions != 0) counts.push_back(std::move(count));
    }
  }
  return counts;
}

}  // namespace sluice

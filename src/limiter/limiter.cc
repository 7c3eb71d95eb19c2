#include "sluice/limiter.h"

#include <stdexcept>
#include <string>
#include <utility>

#include "algorithms/limit_definition.h"
#include "core/store.h"

namespace sluice {

Limiter::Limiter(std::shared_ptr<Store> store, Limit limit)
    : store_(std::move(store)),
      limit_(std::move(limit)),
      space_(store_->open_space(limit_.definition())) {}

Limiter::~Limiter() = default;
Limiter::Limiter(Limiter&&) noexcept = default;
Limiter& Limiter::operator=(Limiter&&) noexcept = default;

Decision Limiter::check(std::string_view key, std::int64_t cost) {
  if (cost < 0) {
    throw std::invalid_argument("a cost is at least 0, not " + std::to_string(cost));
  }
  const Request request{
      .limit = &limit_.definition(), .space = space_.get(), .key = key, .cost = cost};
  Decision decision;
  store_->decide({&request, 1}, kStoreTime, {&decision, 1});
  return decision;
}

Decision Limiter::peek(std::string_view key) {
  return check(key, 0);
}

void Limiter::reset(std::string_view key) {
  const Request request{.limit = &limit_.definition(),
                        .space = space_.get(),
                        .key = key,
                        .operation = Operation::kReset};
  Decision decision;
  store_->decide({&request, 1}, kStoreTime, {&decision, 1});
  if (decision.source != Source::kStore) {
    throw StoreError("the store did not answer: the key '" + std::string(key) +
                     "' is reset in this process at most");
  }
}

}  // namespace sluice

#include <exception>
#include <stdexcept>
#include <utility>

#include "limiter/argument_checks.h"
#include "limiter/ask_later.h"
#include "limiter/limiter_impl.h"

namespace sluice {

void Limiter::async_check(std::string_view key, std::int64_t cost, DecisionCallback callback) {
  std::exception_ptr error;
  try {
    require_units("a cost", cost);
  } catch (const std::invalid_argument&) {
    error = std::current_exception();
  }
  if (error) {
    callback({}, std::move(error));
    return;
  }
  const BoundLimit& bound = impl_->slot.bound();
  Request request = bound.request(key);
  request.cost = cost;
  ask_later(*impl_->slot.store(), bound, request, std::move(callback));
}

}  // namespace sluice

#include "fallback/failure_policy.h"

#include <algorithm>
#include <cassert>
#include <variant>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "core/together.h"

namespace sluice {
namespace {

// The limit of a fresh key.
std::int64_t limit_of(std::span<const Request> requests) {
  Together all;
  const auto add = [&]<class P>(const P& part) {
    using A = typename P::Algorithm;
    all.add(A::take(part.params, typename A::State{}, {.now = 0, .cost = 0}).decision);
  };
  for (const Request& request : requests) {
    for (const AnyPart& part : request.limit->parts) std::visit(add, part);
  }
  return all.decision().limit;
}

}  // namespace

Decision policy_decision(OnFailure policy, std::span<const Request> requests) {
  assert(policy == OnFailure::kAllow || policy == OnFailure::kDeny);
  const bool denied =
      policy == OnFailure::kDeny && std::ranges::any_of(requests, [](const Request& request) {
        return takes(request.operation, request.cost);
      });
  const bool up_to = requests[0].operation == Operation::kTakeUpTo && !denied;
  const std::chrono::seconds wait(denied ? kPolicyWait : std::chrono::seconds(0));
  return {.allowed = !denied,
          .source = Source::kPolicy,
          .limit = limit_of(requests),
          .retry_after = wait,
          .reset_after = wait,
          .taken = up_to ? requests[0].cost : 0};
}

}  // namespace sluice

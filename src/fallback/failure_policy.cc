#include "fallback/failure_policy.h"

#include <algorithm>
#include <cassert>
#include <cstddef>

#include "algorithms/limit_definition.h"
#include "core/block.h"
#include "core/together.h"

namespace sluice {
namespace {

// The numbers by which one of several that are decided together binds: as if all were fresh.
Decision fresh(const AnyPart& part) {
  const std::int64_t quota = numbers_of(part).quota;
  return {.allowed = true, .limit = quota, .remaining = quota};
}

Decision fresh(const LimitDefinition& limit) {
  Together all;
  for (const AnyPart& part : limit.parts) all.add(fresh(part));
  return all.decision();
}

}  // namespace

Decision policy_decision(OnFailure policy, std::span<const Request> requests) {
  assert(policy == OnFailure::kAllow || policy == OnFailure::kDeny);
  const bool denied =
      policy == OnFailure::kDeny && std::ranges::any_of(requests, [](const Request& request) {
        return can_be_denied(request.operation, request.cost);
      });
  constexpr std::chrono::seconds kNone{0};
  const auto decision = [&](const Decision& one) -> Decision {
    return {.allowed = !denied,
            .source = Source::kPolicy,
            .binding = one.binding,
            .limit = one.limit,
            .retry_after = denied ? kPolicyWait : kNone,
            .reset_after = policy == OnFailure::kDeny ? kPolicyWait : kNone};
  };
  const bool is_group = requests.size() > 1;
  Together all;
  for (const Request& request : requests) {
    const LimitDefinition& limit = *request.limit;
    all.add(fresh(limit));
    std::span<Decision> parts = request.parts;
    if (is_group && !parts.empty()) {
      parts[0] = decision(fresh(limit));
      parts = parts.subspan(1);
    }
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i] = decision(fresh(limit.parts[i]));
  }
  if (is_group) return decision(all.decision());
  const Request& only = requests[0];
  Decision answer = decision(fresh(*only.limit));
  if (only.operation == Operation::kTakeUpTo && !denied) answer.taken = only.cost;
  return answer;
}

}  // namespace sluice

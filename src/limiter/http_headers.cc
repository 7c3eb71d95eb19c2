#include "sluice/http_headers.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <stdexcept>

#include "algorithms/limit_definition.h"
#include "core/arithmetic.h"
#include "core/instant.h"

namespace sluice {
namespace {

using Answer = std::pair<Limit, Decision>;

constexpr std::array<std::pair<std::string_view, HeaderStyle>, 5> kStyleNames = {{
    {"ietf-11", HeaderStyle::kIetf11},
    {"x-ratelimit", HeaderStyle::kXRateLimit},
    {"x-ratelimit-epoch", HeaderStyle::kXRateLimitEpoch},
    {"draft-3", HeaderStyle::kDraft3},
    {"none", HeaderStyle::kNone},
}};

// Values of HTTP fields as RFC 9651 (Structured Field Values for HTTP) writes them.
constexpr std::int64_t kMaxStructuredInteger = 999'999'999'999'999;

// A name or expression of a limit has no character that a String would escape.
std::string structured_string(const std::string& name) {
  return "\"" + name + "\"";
}

// Those above the largest Integer are written as that.
std::string structured_integer(std::int64_t value) {
  assert(value >= 0);
  return std::to_string(std::min(value, kMaxStructuredInteger));
}

std::int64_t whole_seconds(std::chrono::nanoseconds wait) {
  return ceil_divide(std::max<std::int64_t>(0, wait.count()), kSecondNs);
}

// Whether the client can be told to try again.
bool may_retry(const Decision& decision) {
  return !decision.allowed && decision.retry_after != kNever;
}

// REQUIRES: may_retry(decision). A client that is told 0 would ask again at once.
std::int64_t retry_seconds(const Decision& decision) {
  assert(may_retry(decision));
  return std::max<std::int64_t>(1, whole_seconds(decision.retry_after));
}

// on_failure=allow admits without having asked, so `remaining` means nothing.
bool knows_remaining(const Decision& decision) {
  return !decision.allowed || decision.source != Source::kPolicy;
}

// A member of RateLimit-Policy.
struct Policy {
  std::string name;
  std::int64_t quota = 1;
  // 0: the client is not told of a window.
  std::int64_t window_s = 0;
  bool concurrent = false;

  std::string text() const {
    std::string text = structured_string(name) + ";q=" + structured_integer(quota);
    if (concurrent) text += ";qu=\"concurrent-requests\"";
    if (window_s > 0) text += ";w=" + structured_integer(window_s);
    return text;
  }
};

// The policies of a limit, one for each part. The decision knows the quota better than the limit,
// which may have been changed since.
std::vector<Policy> policies_of(const Limit& limit, const Decision& decision) {
  std::vector<Policy> policies;
  for (const Limit& part : limit.parts()) {
    const LimitNumbers numbers = numbers_of(part.definition().parts.front());
    const bool below_a_second = numbers.quota_window_ns < kSecondNs;
    policies.push_back(
        {.name = part.space(),
         .quota = numbers.quota,
         .window_s = below_a_second ? 0 : ceil_divide(numbers.quota_window_ns, kSecondNs),
         .concurrent = lends(part.definition())});
  }
  if (policies.size() == 1 && decision.limit > 0) policies.front().quota = decision.limit;
  for (Policy& policy : policies) policy.quota = std::min(policy.quota, kMaxStructuredInteger);
  return policies;
}

// The policy that the numbers of the decision belong to: that of the binding part, if it has this
// limit. Otherwise `binding` counts the claims of a list, or the limit was replaced: then the one
// with this limit, and of several such, or of none, the one with the longest window, which promises
// the client least.
const Policy& binding_policy(const std::vector<Policy>& policies, const Decision& decision) {
  const auto is_same = [&](const Policy& policy) {
    return policy.quota == std::min(decision.limit, kMaxStructuredInteger);
  };
  if (decision.binding < policies.size() && is_same(policies[decision.binding])) {
    return policies[decision.binding];
  }
  return *std::ranges::max_element(policies, {}, [&](const Policy& policy) {
    return std::pair(is_same(policy), policy.window_s);
  });
}

// ceil(remaining * window / quota), so that the rate remaining / t is not above the policy's.
std::int64_t seconds_at_rate(const Policy& policy, std::int64_t remaining) {
  const Int128 scaled = Int128{remaining} * policy.window_s;
  return static_cast<std::int64_t>((scaled + policy.quota - 1) / policy.quota);
}

// A member of RateLimit.
std::string remaining_text(const Policy& policy, const Decision& decision) {
  const std::int64_t remaining =
      may_retry(decision) ? 0 : std::min(decision.remaining, policy.quota);
  std::string text = structured_string(policy.name) + ";r=" + structured_integer(remaining);
  if (policy.window_s == 0) return text;
  std::int64_t window_s = 0;
  if (may_retry(decision)) {
    window_s = retry_seconds(decision);
  } else if (remaining > 0) {
    window_s = seconds_at_rate(policy, remaining);
  } else {
    window_s = std::max<std::int64_t>(1, whole_seconds(decision.reset_after));
  }
  return text + ";t=" + structured_integer(window_s);
}

void append_member(std::string& list, const std::string& member) {
  if (!list.empty()) list += ", ";
  list += member;
}

void add_ietf(std::span<const Answer> answers, std::vector<HttpHeader>& headers) {
  std::string policy_list;
  std::string remaining_list;
  for (const auto& [limit, decision] : answers) {
    const std::vector<Policy> policies = policies_of(limit, decision);
    for (const Policy& policy : policies) append_member(policy_list, policy.text());
    if (!knows_remaining(decision)) continue;
    append_member(remaining_list, remaining_text(binding_policy(policies, decision), decision));
  }
  if (!policy_list.empty()) headers.push_back({"RateLimit-Policy", std::move(policy_list)});
  if (!remaining_list.empty()) headers.push_back({"RateLimit", std::move(remaining_list)});
}

// The answer whose numbers the client gets, in styles that have those of one limit; null if none.
const Answer* binding_answer(std::span<const Answer> answers) {
  const Answer* binding = nullptr;
  for (const Answer& answer : answers) {
    const Decision& decision = answer.second;
    if (!knows_remaining(decision)) continue;
    if (binding == nullptr) {
      binding = &answer;
      continue;
    }
    const Decision& other = binding->second;
    const bool is_tighter = decision.allowed ? decision.remaining < other.remaining
                                             : decision.retry_after > other.retry_after;
    if (decision.allowed != other.allowed ? !decision.allowed : is_tighter) binding = &answer;
  }
  return binding;
}

// The names of the headers that hold one number each.
struct Triple {
  std::string_view limit;
  std::string_view remaining;
  std::string_view reset;
};

constexpr Triple kDraft3Names = {"RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"};
constexpr Triple kXNames = {"X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset"};

// `now_ns`: the instant to which Reset is added; 0 for a Reset in seconds from now.
void add_triple(std::span<const Answer> answers, const Triple& names, std::int64_t now_ns,
                std::vector<HttpHeader>& headers) {
  const Answer* binding = binding_answer(answers);
  if (binding == nullptr) return;
  const auto& [limit, decision] = *binding;
  const std::int64_t quota = binding_policy(policies_of(limit, decision), decision).quota;
  // The policy's own denials have no state that could be reset.
  const auto wait = may_retry(decision) ? std::max(decision.reset_after, decision.retry_after)
                                        : decision.reset_after;
  std::int64_t reset_ns = 0;
  if (!advance(now_ns, 1, wait.count(), reset_ns)) reset_ns = kMaxInt64;
  headers.push_back({names.limit, structured_integer(quota)});
  headers.push_back({names.remaining, structured_integer(decision.remaining)});
  headers.push_back({names.reset, structured_integer(ceil_divide(reset_ns, kSecondNs))});
}

void add_denial(std::span<const Answer> answers, std::vector<HttpHeader>& headers) {
  const auto is_denial = [](const Answer& answer) { return !answer.second.allowed; };
  if (std::ranges::none_of(answers, is_denial)) return;
  const Decision& decision = binding_answer(answers)->second;
  if (may_retry(decision)) {
    headers.push_back({"Retry-After", structured_integer(retry_seconds(decision))});
  }
  headers.push_back({"Cache-Control", "no-store"});
}

}  // namespace

HeaderStyle header_style(std::string_view name) {
  std::string names;
  for (const auto& [style_name, style] : kStyleNames) {
    if (style_name == name) return style;
    names += (names.empty() ? "" : " ") + std::string(style_name);
  }
  throw std::invalid_argument("there is no style of headers '" + std::string(name) +
                              "'; there are " + names);
}

std::vector<HttpHeader> http_headers(std::span<const std::pair<Limit, Decision>> answers,
                                     HeaderStyle style, std::chrono::system_clock::time_point now) {
  std::vector<HttpHeader> headers;
  switch (style) {
    case HeaderStyle::kIetf11:
      add_ietf(answers, headers);
      break;
    case HeaderStyle::kXRateLimit:
      add_triple(answers, kXNames, 0, headers);
      break;
    case HeaderStyle::kXRateLimitEpoch: {
      const auto since_epoch =
          std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch());
      add_triple(answers, kXNames, std::max<std::int64_t>(0, since_epoch.count()), headers);
      break;
    }
    case HeaderStyle::kDraft3:
      add_triple(answers, kDraft3Names, 0, headers);
      break;
    case HeaderStyle::kNone:
      break;
  }
  add_denial(answers, headers);
  return headers;
}

}  // namespace sluice

#include "algorithms/limit_definition.h"

#include <algorithm>
#include <array>
#include <concepts>

#include "algorithms/bucket.h"
#include "core/arithmetic.h"
#include "core/ascii.h"
#include "core/limit_syntax.h"
#include "core/near_miss.h"
#include "core/safe_text.h"

namespace sluice {
namespace {

template <class A>
bool is_named(std::string_view name) {
  if constexpr (requires { A::kAlias; }) {
    if (name == A::kAlias) return true;
  }
  return name == A::kName;
}

template <class... As>
struct Table {
  static bool has(std::string_view name) { return (is_named<As>(name) || ...); }

  // `alone`: the expression has no other part.
  static AnyPart define(PartSyntax& syntax, bool alone) {
    std::optional<AnyPart> part;
    const auto try_one = [&]<class A>() {
      if (part || !is_named<A>(syntax.algorithm())) return;
      part = Part<A>{A::define(syntax)};
      if constexpr (requires { A::kAlone; }) {
        if (!alone) syntax.fail_algorithm(std::string(A::kName) + " cannot be joined with &");
      }
    };
    (try_one.template operator()<As>(), ...);
    if (part) return *part;
    constexpr std::array<std::string_view, sizeof...(As)> kNames{As::kName...};
    std::string names;
    for (const auto name : kNames) names += (names.empty() ? "" : " ") + std::string(name);
    syntax.fail_algorithm("there is no algorithm '" + std::string(syntax.algorithm()) + "'" +
                          suggest_name(syntax.algorithm(), kNames) + "; there are " + names);
  }
};

// The rate that a bucket admits, if it is above 10^8 per second and less than is written.
std::string warn_of_rounding(const BucketParams& params, std::string_view written) {
  constexpr Int128 kNoticeable = 100'000'000;
  const bool is_fast = Int128{params.count} * kSecondNs > kNoticeable * params.period_ns;
  const bool is_exact = Int128{params.interval_ns()} * params.count == params.period_ns;
  if (!is_fast || is_exact) return {};
  return "'" + std::string(written) + "' admits " +
         std::to_string(kSecondNs / params.interval_ns()) +
         "/1s: the time after which a unit returns is rounded up to " +
         std::to_string(params.interval_ns()) + "ns";
}

bool is_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_in_names);
}

// What `text_of` says of each part.
template <class TextOf>
std::string join(const std::vector<AnyPart>& parts, TextOf text_of) {
  std::string text;
  for (const AnyPart& part : parts) {
    if (!text.empty()) text += " & ";
    text += std::visit(text_of, part);
  }
  return text;
}

}  // namespace

bool keeps_state(const std::vector<AnyPart>& from, const std::vector<AnyPart>& to) {
  return state_kind(from) == state_kind(to);
}

LimitNumbers numbers_of(const AnyPart& part) {
  return std::visit([]<class P>(const P& p) { return P::Algorithm::numbers(p.params); }, part);
}

bool is_algorithm(std::string_view name) {
  return WithAlgorithms<Table>::has(name);
}

std::vector<AnyPart> parse_parts(std::string_view expression) {
  std::vector<AnyPart> parts;
  auto written = parse_limit_syntax(expression);
  for (auto& syntax : written) {
    parts.push_back(WithAlgorithms<Table>::define(syntax, written.size() == 1));
  }
  return parts;
}

std::string state_kind(const std::vector<AnyPart>& parts) {
  return join(parts, []<class P>(const P& p) { return P::Algorithm::state_kind(p.params); });
}

std::string describe_parts(const std::vector<AnyPart>& parts) {
  return join(parts, []<class P>(const P& p) { return P::Algorithm::describe(p.params); });
}

Limit::Limit(std::string_view expression, std::string_view name) {
  auto definition = std::make_shared<LimitDefinition>();
  definition->parts = parse_parts(expression);
  definition->expression = describe_parts(definition->parts);
  definition->space = name.empty() ? definition->expression : std::string(name);
  if (!name.empty() && !is_name(name)) {
    throw InvalidLimit("limit name '" + without_url(name.substr(0, 64)) +
                           "': a name has 1 to 64 characters of a-z, A-Z, 0-9, '_', '.', '-'",
                       0);
  }
  if (name == kThrottleSpace) {
    throw InvalidLimit("limit name 'cl': this name belongs to CL.THROTTLE", 0);
  }
  definition_ = std::move(definition);
}

const std::string& Limit::expression() const {
  return definition_->expression;
}
const std::string& Limit::space() const {
  return definition_->space;
}

std::string_view Limit::algorithm() const {
  return std::visit([]<class P>(const P&) -> std::string_view { return P::Algorithm::kName; },
                    definition_->parts.front());
}
std::int64_t Limit::count() const {
  return numbers_of(definition_->parts.front()).count;
}
std::chrono::nanoseconds Limit::window() const {
  return std::chrono::nanoseconds(numbers_of(definition_->parts.front()).window_ns);
}

std::string Limit::warning() const {
  for (const AnyPart& part : definition_->parts) {
    std::string found = std::visit(
        []<class P>(const P& p) {
          if constexpr (std::derived_from<decltype(p.params), BucketParams>) {
            return warn_of_rounding(p.params, P::Algorithm::describe(p.params));
          } else {
            return std::string();
          }
        },
        part);
    if (!found.empty()) return found;
  }
  return {};
}

std::vector<Limit> Limit::parts() const {
  if (definition_->parts.size() == 1) return {*this};
  const bool named = definition_->is_named();
  std::vector<Limit> parts;
  for (const AnyPart& part : definition_->parts) {
    auto alone = std::make_shared<LimitDefinition>();
    alone->parts = {part};
    alone->expression = describe_parts(alone->parts);
    alone->space = alone->expression;
    if (named) {
      alone->space = definition_->space;
      if (!parts.empty()) alone->space += '.' + std::to_string(parts.size() + 1);
    }
    parts.push_back(Limit(std::move(alone)));
  }
  return parts;
}

}  // namespace sluice

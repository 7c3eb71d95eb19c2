#include "service/limit_registry.h"

#include <utility>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/near_miss.h"
#include "core/safe_text.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxNameBytes = 64;

// Whether the text can only be meant as a name: an expression has a blank and a slash. (An
// algorithm alone is what is left of one whose quotes were forgotten.)
bool looks_like_name(std::string_view text) {
  return text.size() <= kMaxNameBytes && text.find_first_of(" \t/&") == std::string_view::npos &&
         !is_algorithm(text);
}

std::string unknown_limit(std::string_view name, const NamedLimits& named) {
  std::vector<std::string_view> names;
  for (const auto& limit : named.all()) names.push_back(limit->limit.space());
  return "no limit is named '" + printable(name, kMaxNameBytes) + "'" + suggest_name(name, names);
}

}  // namespace

UnknownLimit::UnknownLimit(std::string_view name, const NamedLimits& named)
    : InvalidLimit(unknown_limit(name, named), 0) {}

LimitRegistry::LimitRegistry(std::shared_ptr<Store> store, std::shared_ptr<const NamedLimits> named)
    : store_(std::move(store)), named_(std::move(named)) {}

const std::shared_ptr<const RegisteredLimit>& LimitRegistry::find(
    std::string_view name_or_expression) {
  if (const auto* named = named_->find(name_or_expression)) return *named;
  if (answers_expressions()) {
    if (const auto* known = remembered_.find(name_or_expression)) return *known;
  }
  if (looks_like_name(name_or_expression)) {
    throw UnknownLimit(name_or_expression, *named_);
  }
  if (!answers_expressions()) throw InvalidLimit("this server answers named limits only", 0);
  Limit limit(name_or_expression);
  ++opened_;
  auto space = store_->open_space(limit.definition());
  return remembered_.insert(std::string(name_or_expression),
                            std::make_shared<const RegisteredLimit>(
                                RegisteredLimit{{std::move(limit), std::move(space)}}));
}

}  // namespace sluice

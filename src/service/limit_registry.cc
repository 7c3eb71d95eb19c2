#include "service/limit_registry.h"

#include <cassert>
#include <limits>
#include <utility>
#include <vector>

#include "core/near_miss.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxNameBytes = 64;

// Whether the text can only be meant as a name: an expression has a blank and a slash.
bool looks_like_name(std::string_view text) {
  return text.size() <= kMaxNameBytes && text.find_first_of(" \t/&") == std::string_view::npos;
}

}  // namespace

LimitRegistry::LimitRegistry(std::shared_ptr<Store> store, bool expressions)
    : store_(std::move(store)), expressions_(expressions) {}

LimitRegistry::Shared LimitRegistry::bind(Limit limit, std::size_t number) {
  assert(number <= std::numeric_limits<std::uint16_t>::max());
  auto space = store_->open_space(limit.definition());
  return std::make_shared<const RegisteredLimit>(
      RegisteredLimit{{std::move(limit), std::move(space)}, static_cast<std::uint16_t>(number)});
}

void LimitRegistry::add(const Limit& limit) {
  const std::string& name = limit.space();
  if (named_.find(name) != named_.end()) {
    throw InvalidLimit("two limits are named '" + name + "'", 0);
  }
  named_.emplace(name, bind(limit, named_.size() + 1));
}

const std::shared_ptr<const RegisteredLimit>& LimitRegistry::find(
    std::string_view name_or_expression) {
  if (const auto at = named_.find(name_or_expression); at != named_.end()) return at->second;
  if (const auto* known = remembered_.find(name_or_expression)) return *known;
  if (looks_like_name(name_or_expression)) {
    std::vector<std::string_view> names;
    for (const auto& [name, limit] : named_) names.push_back(name);
    throw UnknownLimit("no limit is named '" + std::string(name_or_expression) + "'" +
                       suggest_name(name_or_expression, names));
  }
  if (!expressions_) throw InvalidLimit("this server answers named limits only", 0);
  return remembered_.insert(std::string(name_or_expression), bind(Limit(name_or_expression), 0));
}

}  // namespace sluice

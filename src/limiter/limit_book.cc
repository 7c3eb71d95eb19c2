#include "limiter/limit_book.h"

#include <algorithm>
#include <utility>

#include "core/limit_syntax.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxNameBytes = 64;

// Whether the text can only be meant as a name: an expression has a blank and a slash.
bool looks_like_name(std::string_view text) {
  return text.size() <= kMaxNameBytes && text.find_first_of(" \t/&") == std::string_view::npos;
}

}  // namespace

LimitBook::LimitBook(std::shared_ptr<Store> store) : store_(std::move(store)) {}

void LimitBook::add(const Limit& limit) {
  const std::string& name = limit.space();
  if (named_.find(name) != named_.end()) {
    throw InvalidLimit("two limits are named '" + name + "'", 0);
  }
  named_.emplace(name, BoundLimit{limit, store_->open_space(limit.definition())});
}

const BoundLimit* LimitBook::find(std::string_view name_or_expression) {
  if (const auto at = named_.find(name_or_expression); at != named_.end()) return &at->second;
  if (const auto* known = remembered_.find(name_or_expression)) return known;
  if (looks_like_name(name_or_expression)) {
    throw InvalidLimit("no limit is named '" + std::string(name_or_expression) + "'", 0);
  }
  Limit limit(name_or_expression);
  auto space = store_->open_space(limit.definition());
  return &remembered_.insert(std::string(name_or_expression),
                             BoundLimit{std::move(limit), std::move(space)});
}

}  // namespace sluice

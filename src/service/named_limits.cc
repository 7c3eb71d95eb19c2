#include "service/named_limits.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "algorithms/limit_definition.h"

namespace sluice {

std::uint16_t LimitHistory::number_of(const std::string& name) {
  if (numbers_.size() + 1 >= kMostNumbers && !numbers_.contains(name)) return 0;
  return numbers_.try_emplace(name, static_cast<std::uint16_t>(numbers_.size() + 1)).first->second;
}

std::shared_ptr<Space> LimitHistory::open_space(Store& store, const LimitDefinition& limit) {
  const auto known = spaces_.find(limit.space);
  const auto former = known == spaces_.end() ? nullptr : known->second.lock();
  auto held = store.replace_space(former, limit);
  spaces_[limit.space] = held;
  if (spaces_.size() >= purge_at_) {
    std::erase_if(spaces_, [](const auto& row) { return row.second.expired(); });
    purge_at_ = std::max(purge_at_, 2 * spaces_.size());
  }
  return held;
}

NamedLimits::NamedLimits(Store& store, const ServedLimits& served, LimitHistory& history)
    : expressions_(served.expressions) {
  for (const NamedLimit& named : served.named) {
    const std::string& name = named.limit.space();
    // By kind of state: overrides share the space of the named limit if their limits can read its
    // states. The spaces of other kinds are named after the limit and the kind, "api/fixed_window
    // 1m", which can be neither the name of a limit nor an expression.
    std::map<std::string, std::shared_ptr<Space>> spaces;
    const auto open_space = [&](const Limit& limit) {
      LimitDefinition definition = limit.definition();
      const std::string kind = state_kind(definition.parts);
      std::shared_ptr<Space>& space = spaces[kind];
      if (space != nullptr) return space;
      const bool is_own = spaces.size() == 1;
      if (!is_own) definition.space += '/' + kind;
      // The store is told that not all keys of the space have the same numbers.
      definition.varies = !named.overrides.empty();
      return space = history.open_space(store, definition);
    };
    const std::shared_ptr<Space> own = open_space(named.limit);
    std::vector<std::pair<std::string, KeyRule>> rules;
    for (const LimitOverride& each : named.overrides) {
      const Limit& limit = each.limit ? *each.limit : named.limit;
      assert(lends(limit.definition()) == lends(named.limit.definition()));
      rules.emplace_back(each.key, KeyRule{{limit, open_space(limit)}, each.kind});
    }
    std::unique_ptr<Overrides> overrides;
    if (!rules.empty()) overrides = std::make_unique<Overrides>(rules);
    RegisteredLimit registered{{named.limit, own},
                               history.number_of(name),
                               named.dry_run,
                               named.key,
                               std::move(overrides)};
    all_.push_back(std::make_shared<const RegisteredLimit>(std::move(registered)));
    [[maybe_unused]] const bool is_new = by_name_.emplace(name, all_.back()).second;
    assert(is_new);
  }
}

}  // namespace sluice

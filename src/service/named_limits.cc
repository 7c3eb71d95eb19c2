#include "service/named_limits.h"

#include <algorithm>
#include <utility>

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

/// The spaces of one named limit: its own, which the overrides share whose limits can read its
/// states, and one more for each other kind of state. Those are named after the limit and the
/// algorithms, "api/token_bucket", which no limit and no expression can be.
class Spaces {
 public:
  using ByName = std::map<std::string, HeldSpace>;

  /// Adds the spaces to `all`. `former` may be null.
  Spaces(Store& store, const NamedLimit& named, ByName& all, const ByName* former)
      : store_(store), named_(named), all_(all), former_(former) {}

  /// The space for the keys of this limit, which is the named one or of an override.
  std::shared_ptr<Space> open(const Limit& limit) {
    const auto& parts = limit.definition().parts;
    for (const Opened& opened : opened_) {
      if (keeps_state(opened.parts, parts)) return opened.space;
    }
    LimitDefinition definition = limit.definition();
    if (!opened_.empty()) definition.space = name_for(limit);
    // The store is told that not all keys of the space have the same numbers.
    definition.varies = parts.size() == 1 && !named_.overrides.empty();
    const HeldSpace held = open(definition);
    opened_.push_back({parts, definition.space, {held, held->get()}});
    return opened_.back().space;
  }

 private:
  struct Opened {
    std::vector<AnyPart> parts;
    std::string name;
    std::shared_ptr<Space> space;
  };

  HeldSpace open(const LimitDefinition& definition) {
    HeldSpace& held = all_[definition.space];
    const auto known =
        former_ == nullptr ? ByName::const_iterator() : former_->find(definition.space);
    if (former_ == nullptr || known == former_->end()) {
      held = std::make_shared<const std::shared_ptr<Space>>(store_.open_space(definition));
      return held;
    }
    auto space = store_.replace_space(*known->second, definition);
    held = space == *known->second
               ? known->second
               : std::make_shared<const std::shared_ptr<Space>>(std::move(space));
    return held;
  }

  std::string name_for(const Limit& limit) const {
    std::string algorithms;
    for (const Limit& part : limit.parts()) {
      algorithms += (algorithms.empty() ? '/' : '&') + std::string(part.algorithm());
    }
    const std::string base = named_.limit.space() + algorithms;
    std::string name = base;
    for (int i = 2; std::ranges::find(opened_, name, &Opened::name) != opened_.end(); ++i) {
      name = base + "/" + std::to_string(i);
    }
    return name;
  }

  Store& store_;
  const NamedLimit& named_;
  ByName& all_;
  const ByName* const former_;
  std::vector<Opened> opened_;
};

void require_same_kind(const Limit& limit, const LimitOverride& override) {
  if (!override.limit) return;
  const bool lends_permits = lends(limit.definition());
  if (lends(override.limit->definition()) == lends_permits) return;
  throw InvalidLimit("the limit '" + limit.space() + "' " +
                         (lends_permits ? "lends permits, and so must its overrides"
                                        : "lends no permits, and so must not its overrides"),
                     0);
}

}  // namespace

NamedLimits::NamedLimits(Store& store, const ServedLimits& served, CountNumbers& numbers,
                         const NamedLimits* former)
    : expressions_(served.expressions) {
  for (const NamedLimit& named : served.named) {
    const std::string& name = named.limit.space();
    if (find(name) != nullptr) throw InvalidLimit("two limits are named '" + name + "'", 0);
    Spaces spaces(store, named, spaces_, former == nullptr ? nullptr : &former->spaces_);
    auto space = spaces.open(named.limit);
    std::unique_ptr<Overrides> overrides;
    if (!named.overrides.empty()) overrides = std::make_unique<Overrides>();
    for (const LimitOverride& each : named.overrides) {
      require_same_kind(named.limit, each);
      const Limit& limit = each.limit ? *each.limit : named.limit;
      overrides->add(each.key, {{limit, spaces.open(limit)}, each.kind});
    }
    all_.push_back(
        std::make_shared<const RegisteredLimit>(RegisteredLimit{{named.limit, std::move(space)},
                                                                numbers.of(name),
                                                                named.dry_run,
                                                                named.key,
                                                                std::move(overrides)}));
    by_name_.emplace(name, all_.back());
  }
}

}  // namespace sluice

#include "server/limit_changes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <string_view>

#include "algorithms/limit_definition.h"

namespace sluice {
namespace {

constexpr std::size_t kMostNames = 3;

bool is_same_override(const LimitOverride& a, const LimitOverride& b) {
  if (a.key != b.key || a.kind != b.kind || a.limit.has_value() != b.limit.has_value()) {
    return false;
  }
  return !a.limit || a.limit->expression() == b.limit->expression();
}

bool is_same(const NamedLimit& a, const NamedLimit& b) {
  return a.limit.expression() == b.limit.expression() && a.dry_run == b.dry_run && a.key == b.key &&
         std::ranges::equal(a.overrides, b.overrides, is_same_override);
}

void append(std::string& line, const char* what, const std::vector<std::string_view>& names) {
  if (names.empty()) return;
  line += (line.empty() ? "limits: " : ", ") + std::to_string(names.size()) + " " + what + " (";
  for (std::size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    line.append(i == 0 ? "" : ", ").append(names[i]);
  }
  if (names.size() > kMostNames) {
    line += " and " + std::to_string(names.size() - kMostNames) + " more";
  }
  line += ")";
}

}  // namespace

std::string limit_changes(const std::vector<NamedLimit>& before,
                          const std::vector<NamedLimit>& after) {
  std::map<std::string_view, const NamedLimit*> left;  // Those of `before` that are not in `after`.
  for (const NamedLimit& each : before) left.emplace(each.limit.space(), &each);
  std::vector<std::string_view> added;
  std::vector<std::string_view> changed;
  std::vector<std::string_view> fresh;
  std::vector<std::string_view> removed;
  for (const NamedLimit& each : after) {
    const auto former = left.find(each.limit.space());
    if (former == left.end()) {
      added.emplace_back(each.limit.space());
      continue;
    }
    const bool keeps =
        keeps_state(former->second->limit.definition().parts, each.limit.definition().parts);
    if (!is_same(*former->second, each)) (keeps ? changed : fresh).emplace_back(each.limit.space());
    left.erase(former);
  }
  for (const auto& [name, limit] : left) removed.push_back(name);
  std::string line;
  append(line, "added", added);
  append(line, "changed", changed);
  append(line, "changed with fresh keys", fresh);
  append(line, "removed", removed);
  return line.empty() ? "the named limits are the same" : line;
}

}  // namespace sluice

#include "server/limits_file.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "algorithms/limit_definition.h"
#include "protocols/http/key_template.h"
#include "service/overrides.h"

namespace sluice {
namespace {

using Kind = LimitOverride::Kind;

/// Reads the limits, and counts their overrides.
class LimitsReader {
 public:
  explicit LimitsReader(const YamlFile& file) : file_(file) {}

  NamedLimit read(const YamlMember& member);

 private:
  Limit read_expression(const YamlMember& name, const YamlMember& expression) const;
  void read_overrides(const YamlMember& member, NamedLimit& named);
  LimitOverride read_override(const YAML::Node& item, const YamlMember& name,
                              const NamedLimit& named) const;
  std::string read_template(const YamlMember& member) const;
  std::string read_key(const YamlMember& member) const;

  const YamlFile& file_;
  std::size_t overrides_ = 0;
};

// The limit with this expression, named by the member `name`.
Limit LimitsReader::read_expression(const YamlMember& name, const YamlMember& expression) const {
  // The URL of a store may be in the wrong place, and have a password, which no message quotes.
  const YAML::Node& value = expression.value;
  if (!value.IsScalar() || value.Scalar().find("://") != std::string::npos) {
    file_.fail_value(expression,
                     "'" + expression.name + "' must be a limit like \"sliding_log 5/10m\"");
  }
  std::string text = value.Scalar();
  text.erase(text.find_last_not_of('\n') + 1);  // YAML ends a text behind '|' or '>' with one.
  // First without the name: so an exception means that the expression is wrong, and a later one
  // that the name is.
  try {
    const Limit unnamed(text);
  } catch (const InvalidLimit& error) {
    file_.fail_within(expression.value, error.position(), error.what());
  }
  try {
    return Limit(text, name.name);
  } catch (const InvalidLimit& error) {
    file_.fail_within(name.key, error.position(), error.what());
  }
}

NamedLimit LimitsReader::read(const YamlMember& member) {
  if (!member.value.IsMap()) {
    if (!member.value.IsScalar()) {
      file_.fail_value(member, "the limit '" + member.name +
                                   "' must be a text like \"sliding_log 5/10m\", or a map with "
                                   "'limit'");
    }
    return read_expression(member, member);
  }
  const std::string what = "the limit '" + member.name + "'";
  constexpr std::array<std::string_view, 4> kKnown = {"limit", "dry_run", "key", "overrides"};
  const auto members = file_.members(member.value, what, kKnown);
  const auto expression = std::ranges::find(members, "limit", &YamlMember::name);
  if (expression == members.end()) file_.fail(member.value, what + " has no 'limit'");
  NamedLimit named(read_expression(member, *expression));
  for (const YamlMember& each : members) {
    if (each.name == "dry_run") named.dry_run = file_.yes_or_no(each);
    if (each.name == "key") named.key = read_template(each);
    if (each.name == "overrides") {
      if (!each.value.IsSequence()) {
        file_.fail_value(each,
                         "'overrides' must be a list, of {key: \"a\", deny: yes} for example");
      }
      const YamlMember name{member.name, member.key, each.value};
      read_overrides(name, named);
    }
  }
  return named;
}

void LimitsReader::read_overrides(const YamlMember& member, NamedLimit& named) {
  std::set<std::string> keys;
  std::size_t patterns = 0;
  for (const auto& item : member.value) {
    if (++overrides_ > kMaxOverrides) {
      file_.fail(item, "there are more than " + std::to_string(kMaxOverrides) + " overrides");
    }
    named.overrides.push_back(read_override(item, member, named));
    const std::string& key = named.overrides.back().key;
    if (is_pattern(key) && ++patterns > kMaxPatterns) {
      file_.fail(item, "the limit '" + member.name + "' has more than " +
                           std::to_string(kMaxPatterns) + " overrides whose key is a pattern");
    }
    if (!keys.insert(key).second) {
      file_.fail(item, "the limit '" + member.name + "' has two overrides for '" + key + "'");
    }
  }
}

// The template for the keys of requests that name none.
std::string LimitsReader::read_template(const YamlMember& member) const {
  std::string key = file_.text(member, "\"{ip}\"");
  if (const auto mistake = http::find_mistake(key)) {
    file_.fail_within(member.value, mistake->offset, mistake->sentence);
  }
  return key;
}

std::string LimitsReader::read_key(const YamlMember& member) const {
  std::string key = file_.text(member, "\"customer:7\" or \"internal:*\"");
  if (key.size() > kMaxOverrideKeyBytes) {
    file_.fail_value(member, "the key of an override has at most " +
                                 std::to_string(kMaxOverrideKeyBytes) + " bytes");
  }
  return key;
}

LimitOverride LimitsReader::read_override(const YAML::Node& item, const YamlMember& name,
                                          const NamedLimit& named) const {
  constexpr std::array<std::string_view, 4> kKnown = {"key", "limit", "unlimited", "deny"};
  LimitOverride read;
  std::size_t rules = 0;
  for (const YamlMember& member : file_.members(item, "an override", kKnown)) {
    if (member.name == "key") {
      read.key = read_key(member);
      continue;
    }
    if (member.name == "limit") {
      read.limit = read_expression(name, member);
      if (lends(read.limit->definition()) != lends(named.limit.definition())) {
        file_.fail_value(member,
                         "an override lends permits, as a concurrency limit does, if and "
                         "only if its limit does");
      }
    } else {
      read.kind = member.name == "deny" ? Kind::kDeny : Kind::kAllowAll;
      if (!file_.yes_or_no(member)) {
        file_.fail_value(member, "'" + member.name + "' is yes, or left out");
      }
    }
    if (++rules > 1) {
      file_.fail(member.key, "an override has one of 'limit', 'unlimited' and 'deny'");
    }
  }
  if (read.key.empty()) file_.fail(item, "an override must have a 'key'");
  if (rules == 0) file_.fail(item, "an override must have 'limit', 'unlimited' or 'deny'");
  return read;
}

std::vector<NamedLimit> read_only_limits(const YamlFile& file) {
  constexpr std::array<std::string_view, 1> kOnly = {"limits"};
  const auto members = file.members(file.root(), "the file of limits", kOnly);
  if (members.empty()) file.fail(file.root(), "the file has no 'limits'");
  return read_limits(file, members[0]);
}

void warn_of_rounding(const Limit& limit, const LogFunction& log) {
  const std::string warning = limit.warning();
  if (warning.empty()) return;
  log({LogLevel::kWarning,
       "limit_rounded",
       "the limit " + limit.space() + ": " + warning,
       {{"limit", limit.space()}}});
}

}  // namespace

std::vector<NamedLimit> read_limits(const YamlFile& file, const YamlMember& member) {
  if (!member.value.IsMap()) {
    file.fail_value(member, "'limits' must be a map of names to limit expressions");
  }
  std::vector<NamedLimit> limits;
  LimitsReader reader(file);
  for (const YamlMember& each : file.members(member.value, "'limits'")) {
    if (limits.size() == kMaxNamedLimits) {
      file.fail(each.key, "there are more than " + std::to_string(kMaxNamedLimits) + " limits");
    }
    limits.push_back(reader.read(each));
  }
  return limits;
}

void warn_of_rounding(const std::vector<NamedLimit>& limits, const LogFunction& log) {
  for (const NamedLimit& named : limits) {
    warn_of_rounding(named.limit, log);
    for (const LimitOverride& each : named.overrides) {
      if (each.limit) warn_of_rounding(*each.limit, log);
    }
  }
}

std::vector<NamedLimit> parse_limits(std::string_view yaml, const std::string& path) {
  return read_only_limits({std::string(yaml), path});
}

std::vector<NamedLimit> read_limits_file(const std::string& path) {
  return read_only_limits(YamlFile::open(path));
}

}  // namespace sluice

#include "server/limits_file.h"

#include <array>

namespace sluice {
namespace {

Limit read_limit(const YamlFile& file, const YamlMember& member) {
  if (!member.value.IsScalar()) {
    file.fail_value(member,
                    "the limit '" + member.name + "' must be a text like \"sliding_log 5/10m\"");
  }
  const std::string& expression = member.value.Scalar();
  // First without the name, so that a mistake is known to be the expression's or else the name's.
  try {
    const Limit unnamed(expression);
  } catch (const InvalidLimit& error) {
    file.fail_within(member.value, error.position(), error.what());
  }
  try {
    return Limit(expression, member.name);
  } catch (const InvalidLimit& error) {
    file.fail_within(member.key, error.position(), error.what());
  }
}

std::vector<Limit> read_only_limits(const YamlFile& file) {
  constexpr std::array<std::string_view, 1> kOnly = {"limits"};
  const auto members = file.members(file.root(), "the file of limits", kOnly);
  if (members.empty()) file.fail(file.root(), "the file has no 'limits'");
  return read_limits(file, members[0]);
}

}  // namespace

std::vector<Limit> read_limits(const YamlFile& file, const YamlMember& member) {
  if (!member.value.IsMap()) {
    file.fail_value(member, "'limits' must be a map of names to limit expressions");
  }
  std::vector<Limit> limits;
  for (const YamlMember& each : file.members(member.value, "'limits'")) {
    if (limits.size() == kMaxNamedLimits) {
      file.fail(each.key, "there are more than " + std::to_string(kMaxNamedLimits) + " limits");
    }
    limits.push_back(read_limit(file, each));
  }
  return limits;
}

std::vector<Limit> parse_limits(std::string_view yaml, const std::string& path) {
  return read_only_limits({std::string(yaml), path});
}

std::vector<Limit> read_limits_file(const std::string& path) {
  return read_only_limits(YamlFile::open(path));
}

}  // namespace sluice

#include "server/users_config.h"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/ascii.h"

namespace sluice {
namespace {

constexpr std::size_t kMaxUsers = 1'000;
constexpr std::string_view kHash = "sha256:";
constexpr std::size_t kHashDigits = 64;

std::string read_hash(const YamlFile& file, const YamlMember& member) {
  const std::string text = file.text(member, "sha256:…");
  const std::string_view digits =
      std::string_view(text).substr(std::min(text.size(), kHash.size()));
  if (!text.starts_with(kHash) || digits.size() != kHashDigits ||
      digits.find_first_not_of(kHexDigits) != std::string_view::npos) {
    file.fail_value(member,
                    "'token' must be sha256: and 64 hexadecimal digits, as sluice token prints it");
  }
  return std::string(digits);
}

Roles read_roles(const YamlFile& file, const YamlMember& member) {
  constexpr std::array kRoles = std::to_array<std::pair<std::string_view, Role>>(
      {{"check", kCheckRole}, {"admin", kAdminRole}, {"metrics", kMetricsRole}});
  Roles roles = kNoRole;
  for (const YamlMember& item : file.items(member)) {
    const std::string name = file.text(item, "check");
    const auto* const row = std::ranges::find(kRoles, name, &decltype(kRoles)::value_type::first);
    if (row == kRoles.end()) file.fail_value(item, "a role is check, admin or metrics");
    roles |= row->second;
  }
  return roles;
}

User read_user(const YamlFile& file, const YamlMember& item) {
  constexpr std::array<std::string_view, 4> kUserMembers{"name", "token", "certificate", "roles"};
  User user;
  for (const YamlMember& member : file.members(item.value, "a user", kUserMembers)) {
    if (member.name == "name") {
      user.name = file.text(member, "gateway");
      if (!is_user_name(user.name)) file.fail_value(member, std::string(kUserNames));
    } else if (member.name == "token") {
      user.token_sha256 = read_hash(file, member);
    } else if (member.name == "certificate") {
      user.certificate = file.text(member, "CN=gateway");
    } else {
      user.roles = read_roles(file, member);
    }
  }
  if (user.name.empty() != user.token_sha256.empty() ||
      user.name.empty() == user.certificate.empty()) {
    file.fail(item.value, "a user has 'name' and 'token', or 'certificate'");
  }
  if (user.roles == kNoRole) file.fail(item.value, "a user needs 'roles': check, admin, metrics");
  return user;
}

}  // namespace

std::vector<User> read_users(const YamlFile& file, const YamlMember& member) {
  if (!member.value.IsSequence()) file.fail_value(member, "'users' must be a list");
  std::vector<User> users;
  std::set<std::string> taken;
  for (const YamlMember& item : file.items(member)) {
    User user = read_user(file, item);
    if (users.size() == kMaxUsers) file.fail_value(item, "there can be at most 1000 users");
    if (!taken.insert(user.name + "/" + user.certificate).second) {
      file.fail(item.value, "this user is there twice");
    }
    // A client may send its token alone, and has the roles of one user.
    if (!user.token_sha256.empty() && !taken.insert(user.token_sha256).second) {
      file.fail(item.value, "another user has the same token");
    }
    users.push_back(std::move(user));
  }
  return users;
}

}  // namespace sluice

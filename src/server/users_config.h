#pragma once

#include <vector>

#include "server/yaml_file.h"
#include "service/access.h"

namespace sluice {

/// Reads the member `users` of the server's file, at most 1,000:
///
///     users:
///       - {name: gateway, token: "sha256:…", roles: [check]}
///       - {certificate: "CN=gateway", roles: [check, admin, metrics]}
///
/// Throws ConfigError "PATH:LINE:COLUMN: sentence" at a mistake; the sentence quotes no token.
std::vector<User> read_users(const YamlFile& file, const YamlMember& member);

}  // namespace sluice

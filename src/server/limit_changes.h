#pragma once

#include <string>
#include <vector>

#include "service/served_limits.h"

namespace sluice {

/// How the named limits have changed, in one line: "limits: 2 added (a, b), 1 removed (c)", or
/// "the named limits are the same". Of each kind it has at most three names. A limit has changed if
/// its expression, key, dry run or overrides have; two ways to write one expression are the same.
/// Those whose keys start fresh for it are named apart from the others; keys with an override of
/// another kind than the limit may keep their states.
std::string limit_changes(const std::vector<NamedLimit>& before,
                          const std::vector<NamedLimit>& after);

}  // namespace sluice

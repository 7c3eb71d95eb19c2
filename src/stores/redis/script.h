#pragma once

#include <string_view>

namespace sluice::redis {

/// The one script that judges everything: script.lua, with each algorithm's own Lua in its place.
/// ScriptCall speaks to it.
std::string_view script_text();

/// Its SHA-1 in 40 hexadecimal digits, by which EVALSHA names it.
std::string_view script_sha();

}  // namespace sluice::redis

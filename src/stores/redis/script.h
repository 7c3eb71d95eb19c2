#pragma once

#include <string_view>

namespace sluice::redis {

/// The script that makes all decisions: script.lua, with each algorithm's Lua inserted. ScriptCall
/// writes its calls and reads its replies.
std::string_view script_text();

/// Its SHA-1 in 40 hexadecimal digits, by which EVALSHA names it.
std::string_view script_sha();

}  // namespace sluice::redis

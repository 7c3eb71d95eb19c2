#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// The name that `text` was most likely meant to be: the one that it becomes with the fewest edits
/// (a character too many, too few or another one, two neighbours swapped; the case of letters is
/// none), if these are at most two and few for its length; the first such. Empty if there is none.
std::string_view find_near_miss(std::string_view text, std::span<const std::string_view> names);

/// " (did you mean 'NAME'?)", for a sentence about a name that does not exist; empty where no name
/// is near.
std::string suggest_name(std::string_view text, std::span<const std::string_view> names);

}  // namespace sluice

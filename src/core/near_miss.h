#pragma once

#include <span>
#include <string>
#include <string_view>

namespace sluice {

/// The name that `text` was most likely meant to be: the first of those that differ from it by the
/// fewest edits; empty if none is near. An edit is a character too many, one too few, another one,
/// or two neighbours swapped; upper and lower case are equal. A name is near with one edit if the
/// longer of the two texts has three characters or more, and with two if it has six or more.
std::string_view find_near_miss(std::string_view text, std::span<const std::string_view> names);

/// " (did you mean 'NAME'?)", for a sentence about a name that does not exist; empty where no name
/// is near.
std::string suggest_name(std::string_view text, std::span<const std::string_view> names);

}  // namespace sluice

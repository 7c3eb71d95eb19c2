#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocols/resp/context.h"
#include "protocols/resp/number.h"

namespace sluice::resp {

/// An argument that is a number, by its name in errors.
struct IntegerArgument {
  std::string_view name;
  std::string_view text;
};

/// Reads the number. If the argument is not one, replies so and returns false.
inline bool read_integer(CommandContext& context, const IntegerArgument& argument,
                         std::int64_t& to) {
  if (const auto number = parse_integer(argument.text)) {
    to = *number;
    return true;
  }
  context.reply().error("ERR " + std::string(argument.name) + " is not an integer or out of range");
  return false;
}

/// The least and the most that a number may be.
struct IntegerRange {
  std::int64_t least;
  std::int64_t most;
};
inline bool read_integer(CommandContext& context, const IntegerArgument& argument,
                         const IntegerRange& range, std::int64_t& to) {
  if (!read_integer(context, argument, to)) return false;
  if (to >= range.least && to <= range.most) return true;
  const bool is_small = to < range.least;
  context.reply().error("ERR " + std::string(argument.name) + " must be at " +
                        (is_small ? "least " : "most ") +
                        std::to_string(is_small ? range.least : range.most));
  return false;
}

}  // namespace sluice::resp

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "protocols/resp/context.h"

namespace sluice::resp {

/// A command's flags in COMMAND INFO, and how MULTI treats it.
enum Flag : std::uint8_t {
  kWrites = 1,     ///< Changes keys.
  kReads = 2,      ///< Reads keys, and changes none.
  kFast = 4,       ///< Does little work, however many keys there are.
  kImmediate = 8,  ///< Is run at once after MULTI, not queued.
  kAdmin = 16,     ///< Needs the role admin.
  kNoAuth = 32,    ///< A client needs not have said who it is.
};

/// Which arguments are keys, as in Redis: the first, the last (negative: counted from the end), and
/// the distance from one to the next. All 0: none.
struct KeyArguments {
  int first = 0;
  int last = 0;
  int step = 0;
};

/// A row of the table of commands.
struct Command {
  /// In capitals; "CLIENT|ID" is the subcommand ID of CLIENT.
  std::string_view name;
  /// The arguments, as documentation writes them.
  std::string_view syntax;
  /// The number of arguments, including the name; negative: at least this many.
  int arity;
  unsigned flags;
  KeyArguments keys;
  /// The group of COMMAND DOCS.
  std::string_view group;
  /// May throw what run_command() replies.
  void (*runner)(CommandContext& context, Arguments arguments);
  std::string_view summary;
  /// What it replies with; empty for a subcommand. README.md has a table of name, syntax, summary
  /// and reply, which a test compares with this one.
  std::string_view reply;

  bool is_subcommand() const { return name.find('|') != std::string_view::npos; }

  /// Runs the command, and counts it. REQUIRES: the number of arguments is right.
  void run(CommandContext& context, Arguments arguments) const;
};

/// All commands, those that must be fast first.
std::span<const Command> commands();

/// The row of CL.THROTTLE.
inline constexpr std::size_t kThrottleRow = 0;

/// The command of this name in any case, or null.
const Command* find_command(std::string_view name);

/// The command or subcommand that the arguments name, if their number is right. Otherwise null,
/// after writing the reply that says why. REQUIRES: at least one argument.
const Command* resolve_command(CommandContext& context, Arguments arguments);

/// Runs a command. Replies with an error if there is no such command, if it throws InvalidLimit (a
/// limit that it names) or StoreError (the store cannot open a space), or if the system refuses
/// something that it needs, such as a thread. REQUIRES: at least one argument.
void run_command(CommandContext& context, Arguments arguments);

/// Runs the subcommand that arguments[1] names, or replies why it cannot.
void run_subcommand(CommandContext& context, Arguments arguments);

/// Replies that the client lacks the role for a command, whose name is in small letters.
void refuse_command(CommandContext& context, std::string_view command);

/// Replies that a command's arguments are too few or too many. `command` is its name in small
/// letters.
void refuse_arguments(CommandContext& context, std::string_view command);

}  // namespace sluice::resp

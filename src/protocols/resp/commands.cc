#include "protocols/resp/commands.h"

#include <cassert>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/near_miss.h"
#include "protocols/resp/words.h"
#include "sluice/limit.h"
#include "sluice/store.h"

namespace sluice::resp {
namespace {

bool fits(const Command& command, Arguments arguments) {
  const auto least = static_cast<std::size_t>(std::abs(command.arity));
  return command.arity < 0 ? arguments.size() >= least : arguments.size() == least;
}

// Whether the client may run the command. If not, writes the reply that says so.
bool is_allowed(CommandContext& context, const Command& command) {
  if ((command.flags & kNoAuth) != 0) return true;
  if (context.peer.resume_at != 0) return true;  // It was when the command began.
  const Identity& identity = context.peer.access.identity();
  if (!identity.is_known) {
    context.reply().error("NOAUTH Authentication required.");
    return false;
  }
  const bool asks_limits = (command.flags & (kReads | kWrites)) != 0;
  const Roles needed = (command.flags & kAdmin) != 0 ? kAdminRole
                       : asks_limits                 ? kCheckRole
                                                     : kNoRole;
  if (identity.may(needed)) return true;
  refuse_command(context, in_small_letters(command.name));
  return false;
}

std::size_t row_of(const Command& command) {
  return static_cast<std::size_t>(&command - commands().data());
}

// The command if the number of arguments is right and the client may run it. Otherwise null, after
// writing the reply that says why.
const Command* if_it_fits(CommandContext& context, const Command& command, Arguments arguments) {
  if (!fits(command, arguments)) {
    refuse_arguments(context, in_small_letters(command.name));
  } else if (is_allowed(context, command)) {
    return &command;
  }
  context.thread.commands.add_rejected(row_of(command));
  return nullptr;
}

// "(did you mean 'SLUICE.CHECK'?)", or nothing if no command is near.
std::string suggest_command(std::string_view unknown) {
  std::vector<std::string_view> names;
  for (const Command& command : commands()) {
    if (!command.is_subcommand()) names.push_back(command.name);
  }
  const std::string suggestion = suggest_name(unknown, names);
  return suggestion.empty() ? suggestion : suggestion.substr(1);  // Without the space.
}

// The reply quotes as much of the command as Redis would.
void refuse_unknown(CommandContext& context, Arguments arguments) {
  std::string sentence = "ERR unknown command " + quoted(arguments[0]);
  sentence += ", with args beginning with: ";
  std::size_t repeated = 0;
  for (const auto argument : arguments.subspan(1)) {
    if (repeated >= kMaxQuotedBytes) break;
    const auto piece = argument.substr(0, kMaxQuotedBytes - repeated);
    sentence += '\'';
    sentence += piece;
    sentence += "' ";
    repeated += piece.size() + 3;
  }
  context.reply().error(sentence + suggest_command(arguments[0]));
}

const Command* find_subcommand(const Command& container, std::string_view wanted) {
  for (const auto& command : commands()) {
    std::string_view name = command.name;
    if (!name.starts_with(container.name)) continue;
    name.remove_prefix(container.name.size());
    if (name.starts_with('|') && is_word(wanted, name.substr(1))) return &command;
  }
  return nullptr;
}

// The subcommand that arguments[1] names; null, after writing the reply that says why, if there is
// none.
const Command* resolve_subcommand(CommandContext& context, const Command& container,
                                  Arguments arguments) {
  if (const Command* command = find_subcommand(container, arguments[1])) {
    return if_it_fits(context, *command, arguments);
  }
  context.reply().error("ERR unknown subcommand " + quoted(arguments[1]) + ". Try " +
                        std::string(container.name) + " HELP.");
  return nullptr;
}

// The command that arguments[0] names; null, after writing the reply that says why, if there is
// none.
const Command* resolve_first(CommandContext& context, Arguments arguments) {
  const Command* command = find_command(arguments[0]);
  if (command != nullptr && !command->is_subcommand()) {
    return if_it_fits(context, *command, arguments);
  }
  // These are the first words of an HTTP request: a browser was tricked into sending it here
  // without its user's knowledge. Redis closes the connection as well.
  if (is_word(arguments[0], "POST") || is_word(arguments[0], "HOST:")) {
    context.peer.mode = Mode::kClosing;
  } else {
    refuse_unknown(context, arguments);
  }
  return nullptr;
}

}  // namespace

void Command::run(CommandContext& context, Arguments arguments) const {
  assert(fits(*this, arguments));
  const bool is_begun = context.peer.resume_at != 0;
  if (!is_begun) context.thread.commands.add_calls(row_of(*this), 1);
  runner(context, arguments);
}

const Command* find_command(std::string_view name) {
  for (const auto& command : commands()) {
    if (is_word(name, command.name)) return &command;
  }
  return nullptr;
}

void refuse_command(CommandContext& context, std::string_view command) {
  context.reply().error("NOPERM this user has no permissions to run the '" + std::string(command) +
                        "' command");
}

void refuse_arguments(CommandContext& context, std::string_view command) {
  context.reply().error("ERR wrong number of arguments for '" + std::string(command) + "' command");
}

const Command* resolve_command(CommandContext& context, Arguments arguments) {
  assert(!arguments.empty());
  const Command* command = resolve_first(context, arguments);
  if (command == nullptr || command->runner != run_subcommand) return command;
  return resolve_subcommand(context, *command, arguments);
}

void run_subcommand(CommandContext& context, Arguments arguments) {
  const Command& container = *find_command(arguments[0]);
  if (const Command* command = resolve_subcommand(context, container, arguments)) {
    command->run(context, arguments);
  }
}

void run_command(CommandContext& context, Arguments arguments) {
  assert(!arguments.empty());
  const Command* const command = resolve_first(context, arguments);
  if (command == nullptr) return;
  const auto refuse = [&](const std::exception& error) {
    context.reply().error(std::string("ERR ") + error.what());
  };
  try {
    command->run(context, arguments);
  } catch (const InvalidLimit& error) {
    refuse(error);
  } catch (const StoreError& error) {
    refuse(error);
  } catch (const std::system_error& error) {
    refuse(error);
  }
}

}  // namespace sluice::resp

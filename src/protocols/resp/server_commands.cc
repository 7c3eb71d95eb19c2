#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/arithmetic.h"
#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "protocols/resp/words.h"
#include "service/overrides.h"

namespace sluice::resp {
namespace {

std::vector<const Command*> top_level() {
  std::vector<const Command*> found;
  for (const auto& command : commands()) {
    if (!command.is_subcommand()) found.push_back(&command);
  }
  return found;
}

std::vector<const Command*> subcommands_of(const Command& command) {
  std::vector<const Command*> found;
  const std::string prefix = std::string(command.name) + '|';
  for (const auto& other : commands()) {
    if (other.name.starts_with(prefix)) found.push_back(&other);
  }
  return found;
}

void describe_flags(Writer& reply, unsigned flags) {
  constexpr std::array kNames =
      std::to_array<std::pair<Flag, std::string_view>>({{kWrites, "write"},
                                                        {kReads, "readonly"},
                                                        {kFast, "fast"},
                                                        {kAdmin, "admin"},
                                                        {kNoAuth, "no_auth"}});
  reply.set(static_cast<std::size_t>(std::count_if(
      kNames.begin(), kNames.end(), [=](const auto& row) { return (flags & row.first) != 0; })));
  for (const auto& [flag, name] : kNames) {
    if ((flags & flag) != 0) reply.simple(name);
  }
}

// The ten fields that Redis 7 gives each command.
void describe(Writer& reply, const Command& command) {
  constexpr std::size_t kFields = 10;
  const auto subcommands = subcommands_of(command);
  reply.array(kFields);
  reply.bulk(in_small_letters(command.name));
  reply.integer(command.arity);
  describe_flags(reply, command.flags);
  reply.integer(command.keys.first);
  reply.integer(command.keys.last);
  reply.integer(command.keys.step);
  reply.set(0);  // access categories
  reply.set(0);  // tips
  reply.set(0);  // key specifications
  reply.array(subcommands.size());
  for (const Command* subcommand : subcommands) describe(reply, *subcommand);
}

void describe_all(CommandContext& context) {
  const auto all = top_level();
  Writer reply = context.reply();
  reply.array(all.size());
  for (const Command* command : all) describe(reply, *command);
  context.room = 0;  // What is sent after a long reply waits until that has been sent.
}

// Cuts the next argument off a command's syntax: a word, or what stands in brackets, which is
// optional.
std::string_view next_argument(std::string_view& syntax) {
  const bool is_optional = syntax.starts_with('[');
  std::size_t depth = 0;
  std::size_t end = 0;
  for (; end < syntax.size(); ++end) {
    if (syntax[end] == '[') ++depth;
    if (syntax[end] == ']') --depth;
    if (syntax[end] == ' ' && depth == 0) break;
  }
  const std::string_view argument = syntax.substr(0, end);
  syntax.remove_prefix(std::min(end + 1, syntax.size()));
  return is_optional ? argument.substr(1, argument.size() - 2) : argument;
}

void document_argument(Writer& reply, std::string_view name, bool is_optional) {
  reply.map(is_optional ? 3 : 2);
  reply.bulk("name");
  reply.bulk(name);
  reply.bulk("type");
  reply.bulk(name == "key" ? "key" : "string");
  if (!is_optional) return;
  reply.bulk("flags");
  reply.set(1);
  reply.simple("optional");
}

void document_arguments(Writer& reply, std::string_view syntax) {
  std::size_t count = 0;
  for (std::string_view rest = syntax; !rest.empty(); next_argument(rest)) ++count;
  reply.bulk("arguments");
  reply.array(count);
  while (!syntax.empty()) {
    const bool is_optional = syntax.starts_with('[');
    document_argument(reply, next_argument(syntax), is_optional);
  }
}

void document(Writer& reply, const Command& command) {
  const auto subcommands = subcommands_of(command);
  const bool is_container = !subcommands.empty();
  reply.bulk(in_small_letters(command.name));
  reply.map(is_container ? 6 : 5);
  reply.bulk("summary");
  reply.bulk(command.summary);
  reply.bulk("group");
  reply.bulk(command.group);
  document_arguments(reply, command.syntax);
  // Redis does not have these two fields; clients ignore unknown ones.
  reply.bulk("syntax");
  reply.bulk(command.syntax);
  reply.bulk("reply");
  reply.bulk(command.reply);
  if (!is_container) return;
  reply.bulk("subcommands");
  reply.map(subcommands.size());
  for (const Command* subcommand : subcommands) document(reply, *subcommand);
}

}  // namespace

void run_help(CommandContext& context, Arguments arguments) {
  const Command& command = *find_command(arguments[0]);
  const std::string_view name = command.name;
  const auto subcommands = subcommands_of(command);
  Writer reply = context.reply();
  reply.array(1 + 2 * subcommands.size());
  reply.simple(std::string(name) + " <subcommand> [<arg> [value] [opt] ...]. Subcommands are:");
  for (const Command* subcommand : subcommands) {
    std::string line(subcommand->name.substr(name.size() + 1));
    if (!subcommand->syntax.empty()) line += ' ' + std::string(subcommand->syntax);
    reply.simple(line);
    reply.simple("    " + std::string(subcommand->summary) + ".");
  }
}

void run_command_list(CommandContext& context, Arguments arguments) {
  if (arguments.size() == 1) return describe_all(context);
  run_subcommand(context, arguments);
}

void run_command_count(CommandContext& context, Arguments) {
  context.reply().integer(static_cast<std::int64_t>(top_level().size()));
}

void run_command_docs(CommandContext& context, Arguments arguments) {
  std::vector<const Command*> wanted;
  for (const auto name : arguments.subspan(2)) {
    const Command* command = find_command(name);
    if (command != nullptr) wanted.push_back(command);
  }
  if (arguments.size() == 2) wanted = top_level();
  Writer reply = context.reply();
  reply.map(wanted.size());
  for (const Command* command : wanted) document(reply, *command);
  context.room = 0;
}

void run_command_info(CommandContext& context, Arguments arguments) {
  if (arguments.size() == 2) return describe_all(context);
  Writer reply = context.reply();
  reply.array(arguments.size() - 2);
  for (const auto name : arguments.subspan(2)) {
    const Command* command = find_command(name);
    command == nullptr ? reply.null() : describe(reply, *command);
  }
  context.room = 0;
}

// Has only the parameters that clients and tools ask for at their start. The server itself is
// configured by the options of `sluice serve`.
void run_config_get(CommandContext& context, Arguments arguments) {
  constexpr std::array kParameters = std::to_array<std::pair<std::string_view, std::string_view>>(
      {{"appendonly", "no"}, {"databases", "1"}, {"save", ""}, {"timeout", "0"}});
  std::vector<std::pair<std::string_view, std::string_view>> found;
  for (const auto& parameter : kParameters) {
    const bool is_asked_for =
        std::any_of(arguments.begin() + 2, arguments.end(), [&](std::string_view pattern) {
          return matches(in_small_letters(pattern), parameter.first);
        });
    if (is_asked_for) found.push_back(parameter);
  }
  Writer reply = context.reply();
  reply.map(found.size());
  for (const auto& [name, value] : found) {
    reply.bulk(name);
    reply.bulk(value);
  }
}

void run_time(CommandContext& context, Arguments) {
  constexpr std::int64_t kMicrosecondNs = 1'000;
  const Instant now = context.thread.server->store().now();
  Writer reply = context.reply();
  reply.array(2);
  reply.bulk(std::to_string(now / kSecondNs));
  reply.bulk(std::to_string(now % kSecondNs / kMicrosecondNs));
}

void run_dbsize(CommandContext& context, Arguments) {
  if (context.waits_for_decisions()) return;
  if (const auto keys = context.thread.server->store().count_keys()) {
    return context.reply().integer(static_cast<std::int64_t>(*keys));
  }
  context.reply().error("ERR the store is on another machine, where its keys can be counted");
}

}  // namespace sluice::resp

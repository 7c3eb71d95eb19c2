#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "protocols/resp/command.h"

namespace sluice::resp {
namespace {

bool is_subcommand(const Command& command) {
  return command.name.find('|') != std::string_view::npos;
}

std::vector<const Command*> top_level() {
  std::vector<const Command*> found;
  for (const auto& command : commands()) {
    if (!is_subcommand(command)) found.push_back(&command);
  }
  return found;
}

// The ten fields that Redis 7 gives each command. Sluice moves no keys between servers, so it tells
// clients of none.
void describe(Writer& reply, const Command& command) {
  constexpr std::size_t kFields = 10;
  reply.array(kFields);
  reply.bulk(in_small_letters(command.name));
  reply.integer(command.arity);
  reply.set(0);      // flags
  reply.integer(0);  // first key
  reply.integer(0);  // last key
  reply.integer(0);  // step between keys
  reply.set(0);      // access categories
  reply.set(0);      // tips
  reply.set(0);      // key specifications
  reply.set(0);      // subcommands
}

void describe_all(Turn& turn) {
  const auto all = top_level();
  Writer reply = turn.reply();
  reply.array(all.size());
  for (const Command* command : all) describe(reply, *command);
}

void document(Writer& reply, const Command& command) {
  reply.bulk(in_small_letters(command.name));
  reply.map(2);
  reply.bulk("summary");
  reply.bulk(command.summary);
  reply.bulk("group");
  reply.bulk(command.name.find('.') == std::string_view::npos ? "connection" : "module");
}

}  // namespace

void run_command_list(Turn& turn, Arguments arguments) {
  if (arguments.size() == 1) return describe_all(turn);
  run_subcommand(turn, arguments);
}

void run_command_count(Turn& turn, Arguments) {
  turn.reply().integer(static_cast<std::int64_t>(top_level().size()));
}

void run_command_docs(Turn& turn, Arguments arguments) {
  std::vector<const Command*> wanted;
  for (const auto name : arguments.subspan(2)) {
    const Command* command = find_command(name);
    if (command != nullptr) wanted.push_back(command);
  }
  if (arguments.size() == 2) wanted = top_level();
  Writer reply = turn.reply();
  reply.map(wanted.size());
  for (const Command* command : wanted) document(reply, *command);
}

void run_command_info(Turn& turn, Arguments arguments) {
  if (arguments.size() == 2) return describe_all(turn);
  Writer reply = turn.reply();
  reply.array(arguments.size() - 2);
  for (const auto name : arguments.subspan(2)) {
    const Command* command = find_command(name);
    command == nullptr ? reply.null() : describe(reply, *command);
  }
}

void run_info(Turn& turn, Arguments arguments) {
  const auto sections = arguments.subspan(1);
  const bool wanted = sections.empty() || std::any_of(sections.begin(), sections.end(), [](auto s) {
                        return is_word(s, "SERVER") || is_word(s, "DEFAULT") || is_word(s, "ALL") ||
                               is_word(s, "EVERYTHING");
                      });
  if (!wanted) return turn.reply().verbatim("");
  turn.reply().verbatim("# Server\r\nsluice_version:" SLUICE_VERSION
                        "\r\nmode:standalone\r\nrole:master\r\nloading:0\r\nprocess_id:" +
                        std::to_string(getpid()) + "\r\n");
}

}  // namespace sluice::resp

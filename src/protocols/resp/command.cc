#include "protocols/resp/command.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace sluice::resp {
namespace {

constexpr std::array kCommands = std::to_array<Command>({
    {"CL.THROTTLE", -5, run_cl_throttle, "Takes units from a token bucket, or refuses"},
    {"SLUICE.CHECK", -3, run_sluice_check, "Takes units from a limit, or refuses"},
    {"SLUICE.PEEK", 3, run_sluice_peek, "Says what is left of a limit, and takes nothing"},
    {"SLUICE.RESET", 3, run_sluice_reset, "Forgets a key of a limit"},
    {"PING", -1, run_ping, "Replies PONG, or the argument"},
    {"ECHO", 2, run_echo, "Replies the argument"},
    {"HELLO", -1, run_hello, "Chooses the protocol and describes the server"},
    {"AUTH", -2, run_auth, "There is no password"},
    {"SELECT", 2, run_select, "There is one database, 0"},
    {"CLIENT", -2, run_subcommand, "Names the connection, or says its name or number"},
    {"CLIENT|SETNAME", 3, run_client_setname, "Names the connection"},
    {"CLIENT|SETINFO", 4, run_client_setinfo, "Accepts what a client library says of itself"},
    {"CLIENT|GETNAME", 2, run_client_getname, "Replies the connection's name"},
    {"CLIENT|ID", 2, run_client_id, "Replies the connection's number"},
    {"COMMAND", -1, run_command_list, "Describes the commands"},
    {"COMMAND|COUNT", 2, run_command_count, "Counts the commands"},
    {"COMMAND|DOCS", -2, run_command_docs, "Documents commands"},
    {"COMMAND|INFO", -2, run_command_info, "Describes commands"},
    {"INFO", -1, run_info, "Describes the server"},
    {"QUIT", -1, run_quit, "Closes the connection"},
    {"RESET", 1, run_reset, "Makes the connection as if it were new"},
});

constexpr char to_capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
constexpr char to_small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

bool arity_fits(const Command& command, std::size_t arguments) {
  const auto least = static_cast<std::size_t>(std::abs(command.arity));
  return command.arity < 0 ? arguments >= least : arguments == least;
}

void run_checked(const Command& command, Turn& turn, Arguments arguments) {
  if (arity_fits(command, arguments.size())) return command.run(turn, arguments);
  turn.reply().error("ERR wrong number of arguments for '" + in_small_letters(command.name) +
                     "' command");
}

// As much of the command as Redis quotes, which is bounded.
void refuse_unknown(Turn& turn, Arguments arguments) {
  std::string sentence = "ERR unknown command '";
  sentence += arguments[0].substr(0, kMaxQuotedBytes);
  sentence += "', with args beginning with: ";
  std::size_t quoted = 0;
  for (const auto argument : arguments.subspan(1)) {
    if (quoted >= kMaxQuotedBytes) break;
    const auto piece = argument.substr(0, kMaxQuotedBytes - quoted);
    sentence += '\'';
    sentence += piece;
    sentence += "' ";
    quoted += piece.size() + 3;
  }
  turn.reply().error(sentence);
}

}  // namespace

void Turn::decide_later(Request request, Form form, const std::shared_ptr<Space>& space) {
  if (pending_ == nullptr) pending_ = desk_.pending_batches.take();
  pending_->add(request, form, space);
}

std::shared_ptr<PendingBatch> Turn::ask_later(const std::function<void()>& wake) {
  if (pending_ == nullptr) return nullptr;
  if (!pending_->submit(*desk_.store, now_, wake)) return std::move(pending_);
  pending_->write_replies(output_);
  desk_.pending_batches.give_back(std::move(pending_));
  return nullptr;
}

std::string in_small_letters(std::string_view capitals) {
  std::string text(capitals);
  std::transform(text.begin(), text.end(), text.begin(), to_small);
  return text;
}

bool is_word(std::string_view text, std::string_view capitals) {
  return text.size() == capitals.size() &&
         (text == capitals || std::equal(text.begin(), text.end(), capitals.begin(),
                                         [](char a, char b) { return to_capital(a) == b; }));
}

std::span<const Command> commands() {
  return kCommands;
}

const Command* find_command(std::string_view name) {
  for (const auto& command : kCommands) {
    if (is_word(name, command.name)) return &command;
  }
  return nullptr;
}

void run_command(Turn& turn, Arguments arguments) {
  const Command* command = find_command(arguments[0]);
  if (command != nullptr && command->name.find('|') == std::string_view::npos) {
    return run_checked(*command, turn, arguments);
  }
  // These are the first words of an HTTP request: a browser was tricked into talking to us, and
  // what follows is not its user's wish. Redis hangs up as well.
  if (is_word(arguments[0], "POST") || is_word(arguments[0], "HOST:")) {
    turn.peer().closing = true;
    return;
  }
  refuse_unknown(turn, arguments);
}

void run_subcommand(Turn& turn, Arguments arguments) {
  const Command& container = *find_command(arguments[0]);
  for (const auto& command : kCommands) {
    std::string_view name = command.name;
    if (!name.starts_with(container.name)) continue;
    name.remove_prefix(container.name.size());
    if (!name.starts_with('|') || !is_word(arguments[1], name.substr(1))) continue;
    return run_checked(command, turn, arguments);
  }
  turn.reply().error("ERR unknown subcommand '" +
                     std::string(arguments[1].substr(0, kMaxQuotedBytes)) + "'. Try " +
                     std::string(container.name) + " HELP.");
}

}  // namespace sluice::resp

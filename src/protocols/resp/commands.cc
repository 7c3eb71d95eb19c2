#include "protocols/resp/commands.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "core/arithmetic.h"
#include "protocols/resp/number.h"

namespace sluice::resp {
namespace {

/// How much of what a client sent an error repeats at most, as in Redis.
constexpr std::size_t kMaxQuotedBytes = 128;

struct Command {
  /// In capitals; "CLIENT|ID" is the subcommand ID of CLIENT.
  std::string_view name;
  /// How many arguments, the name included; negative: at least so many.
  int arity;
  void (*run)(CommandContext& context, Arguments arguments);
  std::string_view summary;
};

constexpr char to_capital(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
}
constexpr char to_small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
}

// A command's name as Redis writes it in errors and descriptions.
std::string in_small_letters(std::string_view capitals) {
  std::string text(capitals);
  std::transform(text.begin(), text.end(), text.begin(), to_small);
  return text;
}

// Whether the texts are the same in ASCII but for case. `capitals` has no small letters.
bool is_word(std::string_view text, std::string_view capitals) {
  return text.size() == capitals.size() &&
         (text == capitals || std::equal(text.begin(), text.end(), capitals.begin(),
                                         [](char a, char b) { return to_capital(a) == b; }));
}

// Replies with an error; false.
bool refuse(CommandContext& context, std::string_view error) {
  context.reply().error(error);
  return false;
}

// `command` is its name in small letters.
void refuse_arguments(CommandContext& context, std::string_view command) {
  refuse(context, "ERR wrong number of arguments for '" + std::string(command) + "' command");
}

// The commands that decide.

// Reads an integer argument, or replies that it is none.
bool read_integer(CommandContext& context, std::string_view text, std::string_view argument,
                  std::int64_t& to) {
  const auto number = parse_integer(text);
  if (number) to = *number;
  return number ||
         refuse(context, "ERR " + std::string(argument) + " is not an integer or out of range");
}

// Finds the limit that arguments[1] names or writes, and asks for a decision.
void ask(CommandContext& context, Arguments arguments, Request request, Form form) {
  const std::shared_ptr<const RegisteredLimit>* found = nullptr;
  try {
    found = &context.thread.context.limits.find(arguments[1]);
  } catch (const InvalidLimit& error) {
    return context.reply().error(std::string("ERR ") + error.what());
  } catch (const StoreError& error) {
    return context.reply().error(std::string("ERR ") + error.what());
  }
  const RegisteredLimit& registered = **found;
  const LimitDefinition& limit = registered.limit.definition();
  if (request.operation == Operation::kTake && request.cost > 0 && lends(limit)) {
    return context.reply().error("ERR '" + limit.space +
                                 "' lends permits, which a ConcurrencyLimiter acquires (C++): "
                                 "here it can be peeked at and reset");
  }
  request.limit = &limit;
  request.space = registered.space.get();
  context.thread.context.batch.add(request, {.tag = tag_of(form), .limit = registered.number},
                                   *found);
}

void run_cl_throttle(CommandContext& context, Arguments arguments) {
  constexpr std::size_t kWithQuantity = 6;
  if (arguments.size() > kWithQuantity) return refuse_arguments(context, "cl.throttle");
  ThrottleNumbers numbers;
  std::int64_t quantity = 1;
  if (!read_integer(context, arguments[2], "max_burst", numbers.max_burst) ||
      !read_integer(context, arguments[3], "count", numbers.count) ||
      !read_integer(context, arguments[4], "period", numbers.period_s) ||
      (arguments.size() == kWithQuantity &&
       !read_integer(context, arguments[5], "quantity", quantity))) {
    return;
  }
  const std::shared_ptr<const ThrottleLimit>* limit = nullptr;
  try {
    limit = context.thread.throttle_limits.find(numbers);
  } catch (const StoreError& error) {
    return context.reply().error(std::string("ERR ") + error.what());
  }
  if (limit == nullptr) return context.reply().error(*find_error(numbers));

  Request request{.limit = &(*limit)->definition,
                  .space = (*limit)->space.get(),
                  .key = arguments[1],
                  .cost = quantity};
  if (quantity < 0) {
    request.operation = Operation::kRefund;
    // -2^63 has no positive counterpart, and no bucket has that many units to be given back.
    request.cost = quantity < -kMaxInt64 ? kMaxInt64 : -quantity;
  }
  context.thread.context.batch.add(request, {.tag = tag_of(Form::kThrottle)}, *limit);
}

void run_sluice_check(CommandContext& context, Arguments arguments) {
  constexpr std::size_t kWithCost = 4;
  if (arguments.size() > kWithCost) return refuse_arguments(context, "sluice.check");
  Request request{.key = arguments[2]};
  if (arguments.size() == kWithCost) {
    if (!read_integer(context, arguments[3], "cost", request.cost)) return;
    if (request.cost < 0) return context.reply().error("ERR cost must be at least 0");
  }
  ask(context, arguments, request, Form::kCheck);
}

void run_sluice_peek(CommandContext& context, Arguments arguments) {
  ask(context, arguments, {.key = arguments[2], .cost = 0}, Form::kCheck);
}

void run_sluice_reset(CommandContext& context, Arguments arguments) {
  ask(context, arguments, {.key = arguments[2], .operation = Operation::kReset}, Form::kDone);
}

// The commands of a connection, as in Redis.

// Redis lists a connection's name in one line of words, so a name is printable and without blanks.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

// What is wrong with a connection's name, if anything.
std::optional<std::string> refuse_name(std::string_view name) {
  if (!is_plain(name)) {
    return "ERR Client names cannot contain spaces, newlines or special characters.";
  }
  if (name.size() <= kMaxNameBytes) return std::nullopt;
  return "ERR Client names have at most " + std::to_string(kMaxNameBytes) +
         " bytes, this one has " + std::to_string(name.size()) + ".";
}

// There is no password, which in Redis means: the user "default" may give any.
std::optional<std::string_view> refuse_user(std::string_view user) {
  if (user == "default") return std::nullopt;
  return "WRONGPASS invalid username-password pair or user is disabled.";
}

void describe_server(CommandContext& context) {
  constexpr std::size_t kPairs = 7;
  Writer reply = context.reply();
  reply.map(kPairs);
  reply.bulk("server");
  reply.bulk("sluice");
  reply.bulk("version");
  reply.bulk(SLUICE_VERSION);
  reply.bulk("proto");
  reply.integer(static_cast<std::int64_t>(context.peer.protocol));
  reply.bulk("id");
  reply.integer(context.peer.id);
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

// Reads HELLO's options, of which `name` is what there is to set; replies and is false where one is
// wrong.
bool read_hello_options(CommandContext& context, Arguments options,
                        std::optional<std::string_view>& name) {
  while (!options.empty()) {
    if (is_word(options[0], "AUTH") && options.size() >= 3) {
      if (const auto refusal = refuse_user(options[1])) return refuse(context, *refusal);
      options = options.subspan(3);
    } else if (is_word(options[0], "SETNAME") && options.size() >= 2) {
      if (const auto refusal = refuse_name(options[1])) return refuse(context, *refusal);
      name = options[1];
      options = options.subspan(2);
    } else {
      return refuse(context, "ERR Syntax error in HELLO option '" +
                                 std::string(options[0].substr(0, kMaxQuotedBytes)) + "'");
    }
  }
  return true;
}

void run_ping(CommandContext& context, Arguments arguments) {
  if (arguments.size() == 1) return context.reply().simple("PONG");
  if (arguments.size() == 2) return context.reply().bulk(arguments[1]);
  refuse_arguments(context, "ping");
}

void run_echo(CommandContext& context, Arguments arguments) {
  context.reply().bulk(arguments[1]);
}

void run_hello(CommandContext& context, Arguments arguments) {
  Protocol protocol = context.peer.protocol;
  std::optional<std::string_view> name;
  if (arguments.size() > 1) {
    const auto version = parse_canonical_integer(arguments[1]);
    if (!version) {
      return context.reply().error("ERR Protocol version is not an integer or out of range");
    }
    if (*version != 2 && *version != 3) {
      return context.reply().error("NOPROTO unsupported protocol version");
    }
    protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
    if (!read_hello_options(context, arguments.subspan(2), name)) return;
  }
  context.peer.protocol = protocol;
  if (name) context.peer.name = *name;
  describe_server(context);
}

void run_auth(CommandContext& context, Arguments arguments) {
  if (arguments.size() > 3) return context.reply().error("ERR syntax error");
  if (arguments.size() == 2) {
    return context.reply().error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  if (const auto refusal = refuse_user(arguments[1])) return context.reply().error(*refusal);
  context.reply().simple("OK");
}

void run_select(CommandContext& context, Arguments arguments) {
  const auto index = parse_canonical_integer(arguments[1]);
  if (!index) return context.reply().error("ERR value is not an integer or out of range");
  if (*index != 0) return context.reply().error("ERR DB index is out of range");
  context.reply().simple("OK");
}

void run_client_setname(CommandContext& context, Arguments arguments) {
  if (const auto refusal = refuse_name(arguments[2])) return context.reply().error(*refusal);
  context.peer.name = arguments[2];
  context.reply().simple("OK");
}

void run_client_getname(CommandContext& context, Arguments) {
  if (context.peer.name.empty()) return context.reply().null();
  context.reply().bulk(context.peer.name);
}

void run_client_setinfo(CommandContext& context, Arguments arguments) {
  const bool name = is_word(arguments[2], "LIB-NAME");
  if (!name && !is_word(arguments[2], "LIB-VER")) {
    return context.reply().error("ERR Unrecognized option '" +
                                 std::string(arguments[2].substr(0, kMaxQuotedBytes)) + "'");
  }
  if (!is_plain(arguments[3])) {
    return context.reply().error(std::string(name ? "ERR lib-name" : "ERR lib-ver") +
                                 " cannot contain spaces, newlines or special characters.");
  }
  context.reply().simple("OK");
}

void run_client_id(CommandContext& context, Arguments) {
  context.reply().integer(context.peer.id);
}

void run_quit(CommandContext& context, Arguments) {
  context.reply().simple("OK");
  context.peer.closing = true;
}

void run_reset(CommandContext& context, Arguments) {
  context.peer.protocol = Protocol::kResp2;
  context.peer.name.clear();
  context.reply().simple("RESET");
}

// The commands about the commands and the server. The table is below.

std::span<const Command> commands();
const Command* find_command(std::string_view name);
void run_subcommand(CommandContext& context, Arguments arguments);

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

void describe_all(CommandContext& context) {
  const auto all = top_level();
  Writer reply = context.reply();
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
}

void run_command_info(CommandContext& context, Arguments arguments) {
  if (arguments.size() == 2) return describe_all(context);
  Writer reply = context.reply();
  reply.array(arguments.size() - 2);
  for (const auto name : arguments.subspan(2)) {
    const Command* command = find_command(name);
    command == nullptr ? reply.null() : describe(reply, *command);
  }
}

void run_info(CommandContext& context, Arguments arguments) {
  const auto sections = arguments.subspan(1);
  const bool wanted = sections.empty() || std::any_of(sections.begin(), sections.end(), [](auto s) {
                        return is_word(s, "SERVER") || is_word(s, "DEFAULT") || is_word(s, "ALL") ||
                               is_word(s, "EVERYTHING");
                      });
  if (!wanted) return context.reply().verbatim("");
  context.reply().verbatim("# Server\r\nsluice_version:" SLUICE_VERSION
                           "\r\nmode:standalone\r\nrole:master\r\nloading:0\r\nprocess_id:" +
                           std::to_string(getpid()) + "\r\n");
}

// The table: every command there is, the most urgent first.
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

std::span<const Command> commands() {
  return kCommands;
}

// The command of this name in any case, or null.
const Command* find_command(std::string_view name) {
  for (const auto& command : kCommands) {
    if (is_word(name, command.name)) return &command;
  }
  return nullptr;
}

void run_checked(const Command& command, CommandContext& context, Arguments arguments) {
  const auto least = static_cast<std::size_t>(std::abs(command.arity));
  const bool fits = command.arity < 0 ? arguments.size() >= least : arguments.size() == least;
  if (fits) return command.run(context, arguments);
  refuse_arguments(context, in_small_letters(command.name));
}

// As much of the command as Redis quotes, which is bounded.
void refuse_unknown(CommandContext& context, Arguments arguments) {
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
  context.reply().error(sentence);
}

// Runs the subcommand that arguments[1] names, or replies why there is none such.
void run_subcommand(CommandContext& context, Arguments arguments) {
  const Command& container = *find_command(arguments[0]);
  for (const auto& command : kCommands) {
    std::string_view name = command.name;
    if (!name.starts_with(container.name)) continue;
    name.remove_prefix(container.name.size());
    if (!name.starts_with('|') || !is_word(arguments[1], name.substr(1))) continue;
    return run_checked(command, context, arguments);
  }
  context.reply().error("ERR unknown subcommand '" +
                        std::string(arguments[1].substr(0, kMaxQuotedBytes)) + "'. Try " +
                        std::string(container.name) + " HELP.");
}

}  // namespace

void run_command(CommandContext& context, Arguments arguments) {
  const Command* command = find_command(arguments[0]);
  if (command != nullptr && !is_subcommand(*command)) {
    return run_checked(*command, context, arguments);
  }
  // These are the first words of an HTTP request: a browser was tricked into sending it here
  // without its user's knowledge. Redis closes the connection as well.
  if (is_word(arguments[0], "POST") || is_word(arguments[0], "HOST:")) {
    context.peer.closing = true;
    return;
  }
  refuse_unknown(context, arguments);
}

}  // namespace sluice::resp

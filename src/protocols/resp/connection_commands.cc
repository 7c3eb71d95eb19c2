#include <algorithm>
#include <optional>
#include <string>

#include "protocols/resp/command.h"
#include "protocols/resp/number.h"

namespace sluice::resp {
namespace {

constexpr std::string_view kBadName =
    "ERR Client names cannot contain spaces, newlines or special characters.";

// Redis lists a connection's name in one line of words, so a name is printable and without blanks.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

// What is wrong with a connection's name, if anything.
std::optional<std::string> refuse_name(std::string_view name) {
  if (!is_plain(name)) return std::string(kBadName);
  if (name.size() <= kMaxNameBytes) return std::nullopt;
  return "ERR Client names have at most " + std::to_string(kMaxNameBytes) +
         " bytes, this one has " + std::to_string(name.size()) + ".";
}

// There is no password, which in Redis means: the user "default" may give any.
std::optional<std::string_view> refuse_user(std::string_view user) {
  if (user == "default") return std::nullopt;
  return "WRONGPASS invalid username-password pair or user is disabled.";
}

void describe_server(Turn& turn) {
  constexpr std::size_t kPairs = 7;
  Writer reply = turn.reply();
  reply.map(kPairs);
  reply.bulk("server");
  reply.bulk("sluice");
  reply.bulk("version");
  reply.bulk(SLUICE_VERSION);
  reply.bulk("proto");
  reply.integer(static_cast<std::int64_t>(turn.peer().protocol));
  reply.bulk("id");
  reply.integer(turn.peer().id);
  reply.bulk("mode");
  reply.bulk("standalone");
  reply.bulk("role");
  reply.bulk("master");
  reply.bulk("modules");
  reply.array(0);
}

// Reads HELLO's options, of which `name` is what there is to set; replies and is false where one is
// wrong.
bool read_hello_options(Turn& turn, Arguments options, std::optional<std::string_view>& name) {
  while (!options.empty()) {
    if (is_word(options[0], "AUTH") && options.size() >= 3) {
      if (const auto refusal = refuse_user(options[1])) return turn.reply().error(*refusal), false;
      options = options.subspan(3);
    } else if (is_word(options[0], "SETNAME") && options.size() >= 2) {
      if (const auto refusal = refuse_name(options[1])) return turn.reply().error(*refusal), false;
      name = options[1];
      options = options.subspan(2);
    } else {
      turn.reply().error("ERR Syntax error in HELLO option '" +
                         std::string(options[0].substr(0, kMaxQuotedBytes)) + "'");
      return false;
    }
  }
  return true;
}

}  // namespace

void run_ping(Turn& turn, Arguments arguments) {
  if (arguments.size() == 1) return turn.reply().simple("PONG");
  if (arguments.size() == 2) return turn.reply().bulk(arguments[1]);
  turn.reply().error("ERR wrong number of arguments for 'ping' command");
}

void run_echo(Turn& turn, Arguments arguments) {
  turn.reply().bulk(arguments[1]);
}

void run_hello(Turn& turn, Arguments arguments) {
  Protocol protocol = turn.peer().protocol;
  std::optional<std::string_view> name;
  if (arguments.size() > 1) {
    const auto version = parse_canonical_integer(arguments[1]);
    if (!version) {
      return turn.reply().error("ERR Protocol version is not an integer or out of range");
    }
    if (*version != 2 && *version != 3) {
      return turn.reply().error("NOPROTO unsupported protocol version");
    }
    protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
    if (!read_hello_options(turn, arguments.subspan(2), name)) return;
  }
  turn.peer().protocol = protocol;
  if (name) turn.peer().name = *name;
  describe_server(turn);
}

void run_auth(Turn& turn, Arguments arguments) {
  if (arguments.size() > 3) return turn.reply().error("ERR syntax error");
  if (arguments.size() == 2) {
    return turn.reply().error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  if (const auto refusal = refuse_user(arguments[1])) return turn.reply().error(*refusal);
  turn.reply().simple("OK");
}

void run_select(Turn& turn, Arguments arguments) {
  const auto index = parse_canonical_integer(arguments[1]);
  if (!index) return turn.reply().error("ERR value is not an integer or out of range");
  if (*index != 0) return turn.reply().error("ERR DB index is out of range");
  turn.reply().simple("OK");
}

void run_client_setname(Turn& turn, Arguments arguments) {
  if (const auto refusal = refuse_name(arguments[2])) return turn.reply().error(*refusal);
  turn.peer().name = arguments[2];
  turn.reply().simple("OK");
}

void run_client_getname(Turn& turn, Arguments) {
  if (turn.peer().name.empty()) return turn.reply().null();
  turn.reply().bulk(turn.peer().name);
}

void run_client_setinfo(Turn& turn, Arguments arguments) {
  const bool name = is_word(arguments[2], "LIB-NAME");
  if (!name && !is_word(arguments[2], "LIB-VER")) {
    return turn.reply().error("ERR Unrecognized option '" +
                              std::string(arguments[2].substr(0, kMaxQuotedBytes)) + "'");
  }
  if (!is_plain(arguments[3])) {
    return turn.reply().error(std::string(name ? "ERR lib-name" : "ERR lib-ver") +
                              " cannot contain spaces, newlines or special characters.");
  }
  turn.reply().simple("OK");
}

void run_client_id(Turn& turn, Arguments) {
  turn.reply().integer(turn.peer().id);
}

void run_quit(Turn& turn, Arguments) {
  turn.reply().simple("OK");
  turn.peer().closing = true;
}

void run_reset(Turn& turn, Arguments) {
  turn.peer().protocol = Protocol::kResp2;
  turn.peer().name.clear();
  turn.reply().simple("RESET");
}

}  // namespace sluice::resp

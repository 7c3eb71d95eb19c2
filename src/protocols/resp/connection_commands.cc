#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/instant.h"
#include "protocols/resp/command_functions.h"
#include "protocols/resp/commands.h"
#include "protocols/resp/number.h"
#include "protocols/resp/words.h"

namespace sluice::resp {
namespace {

/// The most connections that CLIENT LIST lists.
constexpr std::size_t kMaxListed = 1'000;

// Redis lists a connection's name in one line of words, so a name is printable and without blanks.
bool is_plain(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= '!' && c <= '~'; });
}

// What is wrong with a text that a client sets for its connection; nothing if it is right.
std::optional<std::string> refuse_text(const std::string& what, std::string_view text) {
  if (!is_plain(text)) {
    return "ERR " + what + " cannot contain spaces, newlines or special characters.";
  }
  if (text.size() <= kMaxNameBytes) return std::nullopt;
  return "ERR " + what + " have at most " + std::to_string(kMaxNameBytes) +
         " bytes, this one has " + std::to_string(text.size()) + ".";
}

std::optional<std::string> refuse_name(std::string_view name) {
  return refuse_text("Client names", name);
}

constexpr std::string_view kWrongPassword =
    "WRONGPASS invalid username-password pair or user is disabled.";

// Logs the client in; `user` is empty if only the token was sent. Returns an error, or nothing. If
// the server has no users, "default" may send any password, as in Redis.
std::optional<std::string_view> log_in(CommandContext& context, std::string_view user,
                                       std::string_view token) {
  ClientAccess& client = context.peer.access;
  if (!client.has_users()) {
    return user == "default" ? std::nullopt : std::optional(kWrongPassword);
  }
  const Access::Verdict verdict = client.log_in(user, token, context.peer.address);
  if (verdict == Access::Verdict::kRight) {
    note_user(context.thread, context.peer);
    return std::nullopt;
  }
  if (verdict == Access::Verdict::kWrong) return kWrongPassword;
  context.peer.mode = Mode::kClosing;
  return "WRONGPASS too many wrong tokens from this address.";
}

void set_name(CommandContext& context, std::string_view name) {
  context.thread.shared->clients.update(context.peer.id,
                                        [=](ClientInfo& client) { client.name = name; });
}

void set_protocol(CommandContext& context, Protocol protocol) {
  context.peer.protocol = protocol;
  context.thread.shared->clients.update(context.peer.id,
                                        [=](ClientInfo& client) { client.protocol = protocol; });
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

struct HelloOptions {
  Arguments login;  // The user and the token; empty without AUTH.
  std::optional<std::string_view> name;
};

// Reads HELLO's options. If one is wrong, replies so and returns false.
bool read_hello_options(CommandContext& context, Arguments options, HelloOptions& to) {
  const auto refuse = [&context](std::string_view error) {
    context.reply().error(error);
    return false;
  };
  while (!options.empty()) {
    if (is_word(options[0], "AUTH") && options.size() >= 3) {
      to.login = options.subspan(1, 2);
      options = options.subspan(3);
    } else if (is_word(options[0], "SETNAME") && options.size() >= 2) {
      if (const auto refusal = refuse_name(options[1])) return refuse(*refusal);
      to.name = options[1];
      options = options.subspan(2);
    } else {
      return refuse("ERR Syntax error in HELLO option " + quoted(options[0]));
    }
  }
  return true;
}

// One line, as in Redis, since clients read some of its fields. Fields that Sluice does not keep
// are empty or 0, and the number of commands in a MULTI is always -1.
std::string describe_client(const ClientInfo& client, Instant now) {
  std::string user = client.user;
  std::ranges::replace(user, ' ', '_');  // The subject of a certificate may have blanks.
  return "id=" + std::to_string(client.id) + " addr=" + client.address +
         " laddr= fd=0 name=" + client.name +
         " age=" + std::to_string(std::max<Instant>(0, now - client.connected_at) / kSecondNs) +
         " idle=0 flags=N db=0 sub=0 psub=0 ssub=0 multi=-1 qbuf=0 qbuf-free=0 argv-mem=0 "
         "multi-mem=0 rbs=0 rbp=0 obl=0 oll=0 omem=0 tot-mem=0 events=r cmd= user=" +
         user + " redir=-1 resp=" + std::to_string(static_cast<int>(client.protocol)) +
         " lib-name=" + client.library + " lib-ver=" + client.library_version + "\n";
}

}  // namespace

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
  HelloOptions options;
  if (arguments.size() > 1) {
    const auto version = parse_canonical_integer(arguments[1]);
    if (!version) {
      return context.reply().error("ERR Protocol version is not an integer or out of range");
    }
    if (*version != 2 && *version != 3) {
      return context.reply().error("NOPROTO unsupported protocol version");
    }
    protocol = *version == 3 ? Protocol::kResp3 : Protocol::kResp2;
    if (!read_hello_options(context, arguments.subspan(2), options)) return;
  }
  if (!options.login.empty()) {
    const auto refusal = log_in(context, options.login[0], options.login[1]);
    if (refusal) return context.reply().error(*refusal);
  }
  if (!context.peer.access.identity().is_known) {
    return context.reply().error(
        "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO "
        "<proto> AUTH <user> <pass> option can be used to authenticate the client and select the "
        "RESP protocol version at the same time");
  }
  set_protocol(context, protocol);
  if (options.name) set_name(context, *options.name);
  describe_server(context);
}

void run_auth(CommandContext& context, Arguments arguments) {
  if (arguments.size() > 3) return context.reply().error("ERR syntax error");
  if (arguments.size() == 2 && !context.peer.access.has_users()) {
    return context.reply().error(
        "ERR AUTH <password> called without any password configured for the default user. Are you "
        "sure your configuration is correct?");
  }
  const std::string_view user = arguments.size() == 3 ? arguments[1] : std::string_view();
  if (const auto refusal = log_in(context, user, arguments.back())) {
    return context.reply().error(*refusal);
  }
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
  set_name(context, arguments[2]);
  context.reply().simple("OK");
}

void run_client_getname(CommandContext& context, Arguments) {
  const std::string name = context.thread.shared->clients.get(context.peer.id).name;
  if (name.empty()) return context.reply().null();
  context.reply().bulk(name);
}

void run_client_setinfo(CommandContext& context, Arguments arguments) {
  const bool is_name = is_word(arguments[2], "LIB-NAME");
  if (!is_name && !is_word(arguments[2], "LIB-VER")) {
    return context.reply().error("ERR Unrecognized option " + quoted(arguments[2]));
  }
  const std::string_view text = arguments[3];
  if (const auto refusal = refuse_text(is_name ? "lib-name" : "lib-ver", text)) {
    return context.reply().error(*refusal);
  }
  context.thread.shared->clients.update(context.peer.id, [=](ClientInfo& client) {
    (is_name ? client.library : client.library_version) = text;
  });
  context.reply().simple("OK");
}

void run_client_id(CommandContext& context, Arguments) {
  context.reply().integer(context.peer.id);
}

void run_client_info(CommandContext& context, Arguments) {
  context.reply().verbatim(describe_client(context.thread.shared->clients.get(context.peer.id),
                                           context.thread.server->store().now()));
}

void run_client_list(CommandContext& context, Arguments arguments) {
  // All connections are those of normal clients.
  const bool is_of_type = arguments.size() == 4 && is_word(arguments[2], "TYPE");
  if (arguments.size() != 2 && !is_of_type) {
    return context.reply().error("ERR syntax error");
  }
  const std::string_view type = is_of_type ? arguments[3] : "normal";
  const auto is_type = [type](std::string_view capitals) { return is_word(type, capitals); };
  std::string lines;
  if (is_type("NORMAL")) {
    const Instant now = context.thread.server->store().now();
    for (const ClientInfo& client : context.thread.shared->clients.list(kMaxListed)) {
      lines += describe_client(client, now);
    }
  } else if (!is_type("MASTER") && !is_type("REPLICA") && !is_type("SLAVE") && !is_type("PUBSUB")) {
    return context.reply().error("ERR Unknown client type " + quoted(type));
  }
  context.reply().verbatim(lines);
  context.room = 0;  // What is sent after a long reply waits until that has been sent.
}

void run_quit(CommandContext& context, Arguments) {
  context.reply().simple("OK");
  context.peer.mode = Mode::kClosing;
}

void run_reset(CommandContext& context, Arguments) {
  context.peer.mode = Mode::kRun;
  context.peer.transaction.clear();
  context.peer.access.log_out();
  note_user(context.thread, context.peer);
  set_protocol(context, Protocol::kResp2);
  set_name(context, "");
  context.reply().simple("RESET");
}

}  // namespace sluice::resp

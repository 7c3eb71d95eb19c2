#include "stores/redis/handshake.h"

#include "stores/redis/reply.h"
#include "stores/redis/script.h"
#include "stores/redis/server_error.h"

namespace sluice::redis {

std::string script_load_command() {
  std::string command;
  append_command(command, {"SCRIPT", "LOAD", script_text()});
  return command;
}

Handshake::Handshake(const RedisOptions& options, Purpose purpose) {
  const bool decides = purpose == Purpose::kDecisions || purpose == Purpose::kPrimary;
  if (purpose != Purpose::kSentinel && !options.password.empty()) {
    if (options.user.empty()) {
      add(Wanted::kNoError, {"AUTH", options.password});
    } else {
      add(Wanted::kNoError, {"AUTH", options.user, options.password});
    }
  }
  if (decides && options.database != 0) {
    add(Wanted::kNoError, {"SELECT", std::to_string(options.database)});
  }
  // Before what may be refused: a client that is not let in at all is told so by the first reply.
  add(Wanted::kNoError, {"PING"});
  add(Wanted::kAnything, {"CLIENT", "SETNAME", "sluice"});
  if (purpose == Purpose::kPrimary) add(Wanted::kPrimary, {"ROLE"});
  if (decides) {
    wanted_.push_back(Wanted::kNoError);
    text_ += script_load_command();
  }
}

void Handshake::add(Wanted wanted, std::initializer_list<std::string_view> command) {
  wanted_.push_back(wanted);
  append_command(text_, command);
}

std::optional<std::string> Handshake::error(std::size_t i, std::string_view reply) const {
  const Wanted wanted = wanted_.at(i);
  if (wanted == Wanted::kAnything) return std::nullopt;
  if (reply.front() == '-') return ": " + std::string(error_text(reply));
  if (wanted == Wanted::kNoError) return std::nullopt;
  const auto role = read_reply(reply);
  if (role && !role->elements.empty() && role->elements[0].text == "master") return std::nullopt;
  return " is not the primary";
}

}  // namespace sluice::redis
